"""The output directory's file system answers no more: whoever gives up need not wait for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hanging_disk import hanging_disk
from serving import LIMIT_S, Stage, command_of, daemon_of, make_stage, wait_for
from test_outputs_end import arguments, next_text, only_unstaged, write

from fanstore.launch.flush_report import FlushReport
from fanstore.launch.signals import ReceivedSignal
from fanstore.launch.wrapper import Wrapper
from fanstore.messages.job import End, Flushing, GiveUp, JobSummary, Stall
from fanstore.messages.message import Message, NamedMessage
from fanstore.outputs.tree.dead_job import rescue
from fanstore.outputs.tree.placed import FILE, Header, Placed

SIZES = (3, 2_000_000)
KEPT = {"f0": 3, "f1": 2_000_000}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.fixture
def dataset(stage: Stage) -> Path:
    return stage.dataset(stage.source(files={"input": b"input"}))


@pytest.fixture
def hung(stage: Stage) -> Iterator[Event]:
    disk = stage.path / "disk"
    disk.mkdir()
    with hanging_disk(disk) as asked:
        yield asked


def out(stage: Stage) -> Path:
    return stage.path / "disk/out"


def has_gone(pid: int) -> bool:
    """Whether all of a process has: of one that hangs a thread is left."""
    return not os.path.exists(f"/proc/{pid}")


def test_the_second_signal_ends_the_waiting(stage: Stage, dataset: Path, hung: Event) -> None:
    """What is not there is kept and named, though the daemon can be killed by nobody."""
    with stage.running(*arguments(stage, dataset, out(stage), write(stage, *SIZES))) as run:
        wait_for(hung.is_set, "the file system to be asked")
        next_text(run, "waiting for 2 outputs")
        daemon = daemon_of(run.pid)
        run.send_signal(signal.SIGINT)
        next_text(run, "interrupt again to stop waiting")
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=LIMIT_S / 2)
        assert not has_gone(daemon), "it hangs, as it should for this test"
    assert run.returncode == 125
    for name in KEPT:
        assert f"not in {out(stage)}: {name}: not waited for" in stderr
    assert f"process {daemon}, the node daemon, hangs in the file system of {out(stage)}" in stderr
    assert "kept on this node instead" in stderr
    assert only_unstaged(stage) == KEPT


@pytest.mark.soak
def test_a_daemon_that_does_not_even_hear_of_it(stage: Stage, dataset: Path, hung: Event) -> None:
    """It is killed soon, and the wrapper keeps what there is without looking at the directory."""
    with stage.running(*arguments(stage, dataset, out(stage), write(stage, *SIZES))) as run:
        wait_for(hung.is_set, "the file system to be asked")
        next_text(run, "waiting for 2 outputs")
        os.kill(daemon_of(run.pid), signal.SIGSTOP)
        for _ in range(2):
            run.send_signal(signal.SIGTERM)
            time.sleep(0.05)  # two of a kind that are pending are one
        _, stderr = run.communicate(timeout=LIMIT_S / 2)
    assert run.returncode == 125
    for name in KEPT:
        assert f"not in {out(stage)}: {name}: not waited for" in stderr
    found = {p.name: p.stat().st_size for p in stage.local.rglob("unstaged/*/*")}
    assert found == KEPT


@pytest.mark.soak
def test_a_dead_daemon_that_the_kernel_is_not_done_with(
    stage: Stage, dataset: Path, hung: Event
) -> None:
    """The job's lock is its own for as long as it hangs."""
    script = f"{write(stage, *SIZES)[2]}; touch {stage.path}/written; "
    script += f"until test -e {stage.path}/go; do sleep 0.1; done"
    with stage.running(*arguments(stage, dataset, out(stage), ["sh", "-c", script])) as run:
        wait_for(hung.is_set, "the file system to be asked")
        wait_for((stage.path / "written").exists, "both to be published")
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        command = command_of(run.pid)
        (stage.path / "go").touch()
        wait_for(lambda: has_gone(command), "the command's end, and that the wrapper knows of it")
        run.send_signal(signal.SIGTERM)
        next_text(run, "interrupt again to stop waiting")
        run.send_signal(signal.SIGTERM)
        _, stderr = run.communicate(timeout=LIMIT_S / 2)
    assert run.returncode == 125
    assert f"not in {out(stage)}: f0: not waited for" in stderr
    assert {p.name: p.stat().st_size for p in stage.local.rglob("unstaged/*/*")} == KEPT


def test_the_rescue_of_a_dead_job_can_be_given_up(tmp_path: Path) -> None:
    disk, job = tmp_path / "disk", tmp_path / "base/jobs/job"
    disk.mkdir()
    (job / "out/0").mkdir(parents=True)
    for name in ("one", "two"):
        (job / "out/0" / name).write_text(name)
    Placed(str(job / FILE), Header("job", str(disk / "out"), ("",), 0o022, True)).close()
    with hanging_disk(disk) as asked:
        done = rescue(str(job), asked.is_set)
    assert done is not None
    assert done.kept == [("one", "not waited for"), ("two", "not waited for")]
    assert {path.name: path.read_text() for path in Path(done.folder).iterdir()} == {
        "one": "one", "two": "two",
    }  # fmt: skip


def test_stop_without_flush(stage: Stage, dataset: Path, hung: Event) -> None:
    where = ["--dataset", str(dataset), "--mount", str(stage.mount)]
    stage.call("start", *where, "--output-dir", str(out(stage)))
    stage.call("exec", "--", *write(stage, *SIZES))
    wait_for(hung.is_set, "the file system to be asked")
    done = subprocess.run(
        [sys.executable, "-m", "fanstore", "stop", "--no-flush"],
        env=stage.env, capture_output=True, text=True, timeout=LIMIT_S / 2,
    )  # fmt: skip
    assert done.returncode == 125
    assert f"not in {out(stage)}: f0: not waited for" in done.stderr
    assert only_unstaged(stage) == KEPT


class Ending(Wrapper):
    """A wrapper at its end: what the daemon says and who presses Ctrl-C is given turn by turn."""

    def __init__(self, turns: list[tuple[list[NamedMessage], int]]) -> None:
        self._turns = turns
        self.told: list[Message] = []
        channel = SimpleNamespace(try_send=self.told.append)
        settings = SimpleNamespace(quiet=True)
        self._plan = cast(Any, SimpleNamespace(settings=settings))
        self._daemon = cast(Any, SimpleNamespace(pid=0, channel=channel))
        self._messages: list[NamedMessage] = []
        self._holds, self._channel_open, self._gave_up = [], True, False
        self._end_signals, self._flush = 0, FlushReport(True)

    def _events(self, timeout_s: float | None = None) -> list[ReceivedSignal]:
        messages, interrupts = self._turns.pop(0)
        self._messages += messages
        self._channel_open = bool(self._turns)
        return [ReceivedSignal(signal.SIGINT, "")] * interrupts

    def _reap_daemon(self) -> bool:
        return True

    def end(self) -> JobSummary | None:
        return self._end()


def test_what_is_said_of_a_slow_rank_hides_no_signal(capsys: pytest.CaptureFixture[str]) -> None:
    """It may come in the very moment in which the command ends."""
    flushing = Flushing(
        output_dir="/out", published=1, staged=0, staged_bytes=0, gone=0, waiting=1,
        waiting_bytes=5, copied_bytes=0, drafts=0, unfinished=(), blocked="",
    )  # fmt: skip
    stall, summary = Stall(line="reads wait for rank 1"), object.__new__(JobSummary)
    wrapper = Ending([([stall, flushing], 0), ([flushing], 1), ([], 1), ([summary], 0)])
    assert wrapper.end() is summary
    assert wrapper.told == [End(), GiveUp()]
    said = capsys.readouterr().err
    assert "reads wait for rank 1" in said and "interrupt again to stop waiting" in said
