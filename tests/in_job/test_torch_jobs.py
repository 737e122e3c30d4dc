"""Jobs with loaders of torch: what they will read is known, and they notice nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Stage, make_stage

torch = pytest.importorskip("torch")

_JOB = str(Path(__file__).with_name("torch_job.py"))
_FILES = 101
_KNOWN = (
    ("shuffled", "own_generator", "persistent", "replacement"),
    ("sequential", "distributed", "weighted", "pairs"),
    ("subsets", "validation", "together"),
    ("unknown_samplers", "unknown_persistent", "yielding", "own_batches"),
    ("parts_of_batches",),
)
_SLOW = (
    "persistent",
    "unknown_persistent",
)  # where each worker imports torch: they are started once
_ALL = "order of reading known for 100.0 % of opens"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = make_stage(tmp_path_factory.mktemp("jobs"))
    files = {f"c{n % 7}/{n:03}": bytes([n, 255 - n, n // 3] * 8) for n in range(_FILES)}
    stage.dataset(stage.source(files=files))
    return stage


def run_job(
    stage: Stage, *names: str, order: str = "auto", flags: tuple[str, ...] = (), **env: str
) -> tuple[dict[str, object], str]:
    """Runs a job in a mount; returns what it says, and what FanStore says."""
    mount = str(stage.path / "plain")  # where the files are, too
    where = ("--dataset", str(stage.path / "data"), "--mount", mount)
    command = (sys.executable, *flags, _JOB, mount, *names)
    done = stage.call("run", *where, "--", *command, FANSTORE_ORDER=order, **env)
    return json.loads(done.stdout), done.stderr


def check(stage: Stage, names: tuple[str, ...], **how: str) -> None:
    watched, said = run_job(stage, *names, **how)
    assert _ALL in said, said
    assert "wrong" not in said, said
    alone, said = run_job(stage, *names, order="off", **how)
    assert "order of reading" not in said
    assert watched == alone


def test_all_opens_are_known_and_nothing_changes(stage: Stage) -> None:
    check(stage, tuple(name for names in _KNOWN for name in names))


@pytest.mark.parametrize("names", _KNOWN)
def test_workers_that_are_forked(stage: Stage, names: tuple[str, ...]) -> None:
    check(stage, names, WORKERS="2", CONTEXT="fork")


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_workers_that_are_started_anew(stage: Stage, context: str) -> None:
    check(stage, _SLOW, WORKERS="2", CONTEXT=context)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_losses_are_those_without_fanstore(stage: Stage, workers: str) -> None:
    names = ("shuffled", "validation", "broken_off", "unknown_samplers", "iterable")
    plain = subprocess.run(
        [sys.executable, _JOB, str(stage.path / "plain"), *names],
        capture_output=True, text=True, check=True, env={**os.environ, "WORKERS": workers},
    )  # fmt: skip
    expected = json.loads(plain.stdout)
    watched, _ = run_job(stage, *names, WORKERS=workers)
    assert (watched["losses"], watched["states"]) == (expected["losses"], expected["states"])


def test_odd_loaders_hide_no_other_ones(stage: Stage) -> None:
    _, said = run_job(stage, "augmented", "single_samples", "odd_datasets")
    assert _ALL in said


def test_an_epoch_that_is_broken_off(stage: Stage) -> None:
    _, said = run_job(stage, "broken_off", WORKERS="2")
    assert _ALL in said
    assert "wrong" not in said


_THREADS = """
import sys, threading
sys.argv[1:] = sys.argv[2:]
from torch_job import Folder, data, loader
def read(over):
    for _ in over:
        pass
dataset = Folder(sys.argv[1])
for _ in range(6):
    parts = data.random_split(dataset, [50, 51])
    readers = [threading.Thread(target=read, args=[loader(each, shuffle=True)]) for each in parts]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_loaders_that_threads_read_at_once(stage: Stage, workers: str) -> None:
    """They draw from one generator, and nobody knows which of them draws first."""
    mount = str(stage.path / "plain")
    done = stage.call(
        "run", "--dataset", str(stage.path / "data"), "--mount", mount, "--",
        sys.executable, "-c", _THREADS, "job", mount,
        WORKERS=workers, PYTHONPATH=os.pathsep.join([str(Path(_JOB).parent), *sys.path]),
    )  # fmt: skip
    # Of epochs of 50 files, some are over before their announcement is heard.
    assert "(torch RandomSampler)" in done.stderr and "wrong" not in done.stderr, done.stderr


def test_an_audit_hook_of_the_job_hears_nothing(stage: Stage) -> None:
    watched, said = run_job(stage, "shuffled", "unknown_samplers", "listed_streams", AUDIT="1")
    alone, _ = run_job(stage, "shuffled", "unknown_samplers", "listed_streams", order="off")
    assert watched == alone
    for name in ("torch RandomSampler", "torch Odd, its indices", "torch Listed, its files"):
        assert name in said, said


@pytest.mark.parametrize("flags", [("-I",), ("-E", "-S", "-s")])
def test_isolated_interpreters(stage: Stage, flags: tuple[str, ...]) -> None:
    packages = str(Path(torch.__file__).parents[1])
    code = f"import sys; sys.path.append({packages!r}); sys.argv[1:] = sys.argv[2:]; "
    code += f"exec(compile(open({_JOB!r}).read(), 'job', 'exec'))"
    mount = str(stage.path / "plain")
    done = stage.call(
        "run", "--dataset", str(stage.path / "data"), "--mount", mount, "--",
        sys.executable, *flags, "-c", code, _JOB, mount, "shuffled",
    )  # fmt: skip
    assert _ALL in done.stderr


def test_the_report_names_samplers_of_ones_own(stage: Stage) -> None:
    _, said = run_job(stage, "unknown_samplers", "yielding", WORKERS="2")
    for name in ("Odd, its indices", "Yielding, as drawn", "list, its indices"):
        assert f"torch {name}" in said, said


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    "name,unknown", [("listed_streams", 2), ("streams_of_folders", 7), ("iterable", 4)]
)
def test_streams_are_known_after_the_first_file_of_a_list(
    stage: Stage, name: str, unknown: int, workers: str
) -> None:
    watched, said = run_job(stage, name, WORKERS=workers)
    share = float(said.partition("known for ")[2].partition(" %")[0] or 0)
    assert share >= 100 - unknown - 1 and "its files)" in said, said
    assert "wrong" not in said, said
    alone, _ = run_job(stage, name, order="off", WORKERS=workers)
    assert watched == alone


@pytest.mark.parametrize("name", ["named_stream", "patched"])
def test_what_cannot_be_known_is_left_alone(stage: Stage, name: str) -> None:
    watched, said = run_job(stage, name)
    assert "known for" not in said, said
    assert ("NamedStream goes through no list of paths" in said) == (name == "named_stream")
    assert watched["modules"] == []


def test_a_failing_hook_is_said_once(stage: Stage) -> None:
    code = (
        "import os, torch.utils.data as data\n"
        "open(os.path.join(os.environ['FANSTORE_MOUNT_PREFIX'], 'c0/000')).close()\n"
        "del data.DistributedSampler, data.distributed.DistributedSampler\n"
        "loader = data.DataLoader([1, 2, 3], shuffle=True)\n"
        "print([len(list(loader)) for _ in range(3)])\n"
    )
    done = stage.run(stage.path / "data", sys.executable, "-c", code)
    assert done.stdout == "[3, 3, 3]\n"
    assert done.stderr.count("order of reading not known: the job's Python: AttributeError") == 1


_FAILING = """
import os, sys, traceback, torch
from torch.utils import data

class Files(data.Dataset):
    def __len__(self):
        return 9
    def __getitem__(self, index):
        return len(open(sys.argv[1] + "/c0/000").read()) // (index - 5)

class Drawn(data.Sampler):
    def __iter__(self):
        yield 1
        raise LookupError("no more")

def failing(batch):
    raise TypeError("no batch")

for more in ({}, {"sampler": Drawn()}, {"collate_fn": failing}):
    try:
        for _ in data.DataLoader(Files(), num_workers=int(sys.argv[2]), **more):
            pass
    except Exception:
        print(traceback.format_exc())
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_tracebacks_are_those_without_fanstore(stage: Stage, workers: str) -> None:
    mount = str(stage.path / "plain")
    command = (sys.executable, "-c", _FAILING, mount, workers)
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    done = stage.call(
        "run", "--dataset", str(stage.path / "data"), "--mount", mount, "--", *command
    )
    assert plain.stdout.count("Traceback") >= 3
    assert done.stdout == plain.stdout
