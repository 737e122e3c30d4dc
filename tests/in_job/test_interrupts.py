"""What a job's signal handlers raise while FanStore's code runs in its Python reaches the job."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Stage, make_stage

from fanstore.in_job.epochs import Epochs
from fanstore.in_job.tags import Tags
from fanstore.in_job.teller import Teller, of_a_handler


class Late(Exception):
    """What the job's handler raises."""


class Alarm:
    """Handlers of all kinds."""

    def method(self, number: int, frame: Any) -> None:
        raise Late

    __call__ = method


def function(number: int, frame: Any) -> None:
    raise Late


HANDLERS = [function, Alarm().method, Alarm(), functools.partial(function)]


@pytest.fixture(params=HANDLERS, ids=["function", "method", "object", "partial"])
def interrupted(request: pytest.FixtureRequest) -> Iterator[Callable[..., None]]:
    """What runs until the alarm comes, as code that looks at a job's objects may."""
    before = signal.signal(signal.SIGALRM, request.param)

    def wait(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGALRM)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            pass

    yield wait
    signal.signal(signal.SIGALRM, before)


class Loader:
    """As much of a DataLoader as is looked at, of one with workers."""

    num_workers, prefetch_factor, in_order, _dataset_kind = 2, 2, True, 0
    dataset: list[int] = []  # noqa: RUF012


class Made:
    """As much of its iterator."""

    _index_sampler, _sampler_iter, _dataset = object(), object(), Loader.dataset


def epochs(tmp_path: Path, sampler_of: Callable[..., Any]) -> Epochs:
    return Epochs(*[sampler_of, *[lambda *_: None] * 5, None], Teller(str(tmp_path)))


def test_it_is_raised_where_epochs_are_told(
    tmp_path: Path, interrupted: Callable[..., None]
) -> None:
    looked = []

    def sampler_of(sampler: Any) -> None:
        looked.append(sampler)
        if len(looked) == 1:
            interrupted()

    watched, made = epochs(tmp_path, sampler_of), Made()
    with pytest.raises(Late):
        watched.made(made, Loader())
    watched.made(made, Loader())
    assert len(looked) == 2  # it is looked at as before


def test_what_the_jobs_own_objects_raise_is_not(tmp_path: Path) -> None:
    def sampler_of(sampler: Any) -> None:
        raise Late

    epochs(tmp_path, sampler_of).made(Made(), Loader())
    assert Tags(lambda *_: None, sampler_of, of_a_handler, "").name_of(Alarm()) is None


def test_it_is_raised_where_samples_are_told(interrupted: Callable[..., None]) -> None:
    with pytest.raises(Late):
        Tags(lambda *_: None, interrupted, of_a_handler, "").name_of(Alarm())


TORCH = {
    "__init__.py": "",
    "utils/__init__.py": "",
    # torch_start.py asks for `_utils`.
    "utils/data/__init__.py": "def __getattr__(name):\n"
    "    import os, signal, time\n"
    "    os.kill(os.getpid(), signal.SIGINT if os.environ['KIND'] == 'int' else signal.SIGALRM)\n"
    "    while True: pass\n",
    "utils/data/dataloader.py": "class _BaseDataLoaderIter:\n"
    "    def _next_index(self): pass\n"
    "class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter): pass\n",
}
JOB = """
import signal
def late(number, frame): raise TimeoutError("late")
signal.signal(signal.SIGALRM, late)
import torch.utils.data.dataloader
try:
    import json.tool  # the next import: it begins to look
except (TimeoutError, KeyboardInterrupt) as error:
    print("raised", type(error).__name__)
"""


@pytest.mark.parametrize(
    ("kind", "raised"), [("alarm", "TimeoutError"), ("int", "KeyboardInterrupt")]
)
def test_it_is_raised_where_looking_begins(tmp_path: Path, kind: str, raised: str) -> None:
    stage: Stage = make_stage(tmp_path)
    for name, text in TORCH.items():
        path = tmp_path / "packages" / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    job = tmp_path / "job.py"
    job.write_text(JOB)
    words = ("run", "--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--")
    environment = {"PYTHONPATH": f"{tmp_path}/packages", "KIND": kind}
    done = subprocess.run(
        [sys.executable, "-m", "fanstore", *words, "timeout", "60", sys.executable, job],
        env={**stage.env, **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout == f"raised {raised}\n", done.stderr
