"""What fanstore.torch.DataLoader does when workers raise, die or hang, and at its end."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import wait_for

torch = pytest.importorskip("torch", reason="torch is not installed")

from loader_sets import Mixed  # noqa: E402

from fanstore.errors import FanstoreError  # noqa: E402
from fanstore.torch import DataLoader  # noqa: E402
from fanstore.torch.batches import slots  # noqa: E402


class Failing(Mixed):
    """Does what `how` says at sample 9."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def __getitem__(self, index: int) -> Any:
        if index == 9 and self.how == "raise":
            raise KeyError("sample nine is bad")
        if index == 9 and self.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if index == 9 and self.how == "hang":
            time.sleep(600)
        return super().__getitem__(index)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    def left() -> list[str]:
        gc.collect()
        targets = [
            os.readlink(entry) for entry in Path("/proc/self/fd").iterdir() if entry.exists()
        ]
        return [target for target in targets if "fanstore-batches" in target]

    before = left()
    yield
    # Tracebacks of what was raised hold the iterators.
    wait_for(lambda: left() == before and not multiprocessing.active_children(), "workers end")


def test_an_exception_of_a_worker_is_raised_once_with_its_traceback() -> None:
    batches = iter(DataLoader(Failing("raise"), batch_size=4, num_workers=2))
    seen = [next(batches)["number"].tolist() for _ in range(2)]
    with pytest.raises(KeyError, match=r"(?s)Traceback.*sample nine is bad"):
        next(batches)
    assert [*seen, next(batches)["number"].tolist()] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [12, 13, 14, 15],
    ]  # fmt: skip


def test_a_worker_that_was_killed_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"worker \(pid\(s\) \d+\) exited|killed by signal"):
        list(DataLoader(Failing("kill"), batch_size=4, num_workers=2))


def test_a_worker_that_hangs_is_a_timeout() -> None:
    with pytest.raises(RuntimeError, match="timed out after 3"):
        list(DataLoader(Failing("hang"), batch_size=4, num_workers=1, timeout=3))


def test_a_loop_that_is_left_early_leaves_nothing() -> None:
    loader = DataLoader(Mixed(), batch_size=4, num_workers=2)
    for _ in range(3):
        for batch in loader:
            assert batch["number"].tolist() == [0, 1, 2, 3]
            break


def test_too_little_memory_is_said_with_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "left_bytes", lambda: 1000)
    with pytest.raises(
        FanstoreError, match="needs 2,097,152 bytes more of shared memory, and 1,000"
    ):
        list(DataLoader(Mixed(), batch_size=4, num_workers=1))


JOB = """
import sys
sys.path[:0] = {path!r}
from loader_sets import Mixed
from fanstore.torch import DataLoader
if __name__ == "__main__":
    loader = DataLoader(Mixed(100_000_000), batch_size=4, num_workers=2)
    for number, _ in enumerate(loader):
        if number == 3:
            print("runs", flush=True)
"""


def test_ctrl_c_ends_the_loop_and_the_workers() -> None:
    here = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support"), *sys.path]
    job = subprocess.Popen(
        [sys.executable, "-c", JOB.format(path=here)], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == "runs\n"
    os.killpg(job.pid, signal.SIGINT)
    _, said = job.communicate(timeout=60)
    assert said.count("KeyboardInterrupt") == 1
    assert job.returncode != 0
    with pytest.raises(ProcessLookupError):
        wait_for(lambda: os.killpg(job.pid, 0), "workers end")
