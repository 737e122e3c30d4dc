"""`fanstore top` on a terminal: keys, its end, and what it leaves behind."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import LIMIT_S, Stage, make_stage, wait_for
from terminal import on_terminal

TOP = [sys.executable, "-m", "fanstore", "top", "--interval", "0.2"]
SCREEN_ON, SCREEN_OFF = b"\x1b[?1049h", b"\x1b[?1049l"
CURSOR_ON = b"\x1b[?25h"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def start(stage: Stage, *options: str) -> dict[str, Any]:
    mount = str(stage.mount) + str(len(list(stage.path.glob("data*"))))
    dataset = stage.path / "data"
    if not dataset.exists():
        stage.dataset()
    where = ("--dataset", str(dataset), "--mount", mount)
    job: dict[str, Any] = json.loads(stage.call("start", *where, *options, "--json").stdout)
    return job


@pytest.fixture
def job(stage: Stage) -> Iterator[dict[str, Any]]:
    job = start(stage)
    yield job
    if Path(job["job_directory"]).exists():
        stage.call("stop", "--job", job["job_id"])


class Watch:
    """`fanstore top` on a terminal of its own."""

    def __init__(self, stage: Stage, *options: str) -> None:
        self.pid, self.terminal = on_terminal(stage, [*TOP, *options])
        self.resize(24, 80)
        self.modes = termios.tcgetattr(self.terminal)
        self.shown = b""

    def resize(self, lines: int, columns: int) -> None:
        size = struct.pack("4H", lines, columns, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)

    def take(self) -> None:
        """Takes what is shown by now."""
        while select.select([self.terminal], [], [], 0)[0]:
            try:
                data = os.read(self.terminal, 1 << 16)
            except OSError:
                return
            if not data:
                return
            self.shown += data

    def wait_for(self, text: bytes) -> None:
        def seen() -> bool:
            self.take()
            return text in self.shown

        wait_for(seen, f"{text!r} on the screen")

    def type(self, key: str) -> None:
        os.write(self.terminal, key.encode())

    def code(self) -> int:
        """Its exit code; what it leaves is as it was."""
        deadline_s = time.monotonic() + LIMIT_S
        ended, status = 0, 0
        while not ended and time.monotonic() < deadline_s:
            self.take()
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            time.sleep(0.005)
        assert ended, "it has not ended"
        self.take()
        assert self.shown.rfind(SCREEN_OFF) > self.shown.rfind(SCREEN_ON) > -1
        assert CURSOR_ON in self.shown
        assert termios.tcgetattr(self.terminal) == self.modes
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("q", 0),
        (signal.SIGTERM, 143),
        pytest.param("\x03", 0, marks=pytest.mark.soak),
        pytest.param(signal.SIGHUP, 129, marks=pytest.mark.soak),
    ],
)
def test_the_terminal_is_left_as_it_was(
    stage: Stage, job: dict[str, Any], how: str | int, code: int
) -> None:
    watch = Watch(stage)
    watch.wait_for(b"opens/s")
    watch.wait_for(job["job_id"].encode())
    if isinstance(how, str):
        watch.type(how)
    else:
        os.kill(watch.pid, how)
    assert watch.code() == code


def test_keys_and_other_sizes(stage: Stage, job: dict[str, Any]) -> None:
    watch = Watch(stage)
    watch.wait_for(b"stall%")
    for key in "sobrpx":
        watch.type(key)
    watch.take()
    watch.type("h")
    watch.wait_for(b"how full the block cache is")
    watch.shown = SCREEN_ON
    for lines, columns in ((10, 40), (2, 10), (50, 200)):
        watch.resize(lines, columns)
        watch.shown = SCREEN_ON
        watch.wait_for(b"job")
    watch.type("q")
    assert watch.code() == 0


def test_the_job_ends_while_it_is_watched(stage: Stage, job: dict[str, Any]) -> None:
    watch = Watch(stage)
    watch.wait_for(b"opens/s")
    stage.call("stop")
    assert watch.code() == 0
    assert f"job {job['job_id']} has ended".encode() in watch.shown


@pytest.mark.soak
def test_no_job_and_two_jobs(stage: Stage) -> None:
    assert "no job" in stage.call("top", "--once", code=125).stderr
    jobs = [start(stage), start(stage)]
    try:
        assert "several jobs" in stage.call("top", "--once", code=125).stderr
        for job in jobs:
            name = job["job_id"]
            once = stage.call("top", "--once", "--json", "--interval", "0.2", "--job", name)
            said = json.loads(once.stdout)
            assert said["job_id"] == name and len(said["ranks"]) == 1
    finally:
        for job in jobs:
            stage.call("stop", "--job", job["job_id"])


def test_a_dead_job_is_not_watched(stage: Stage, job: dict[str, Any]) -> None:
    os.kill(job["daemon_pid"], signal.SIGKILL)
    wait_for(lambda: "dead" in stage.call("top", "--once", code=125).stderr, "the daemon's end")
    stage.call("clean")


def test_json_is_of_one_look(stage: Stage) -> None:
    assert "--json goes with --once" in stage.call("top", "--json", code=2).stderr
    assert "0.2<=x<=3600" in stage.call("top", "--interval", "0", code=2).stderr


def test_a_terminal_without_a_screen_gets_one_look(
    stage: Stage, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    watch = Watch(stage)
    watch.wait_for(b"stall%")
    deadline_s = time.monotonic() + LIMIT_S
    while not os.waitpid(watch.pid, os.WNOHANG)[0]:
        assert time.monotonic() < deadline_s
        watch.take()
    os.close(watch.terminal)
    assert SCREEN_ON not in watch.shown


def test_80_columns_are_enough(stage: Stage, job: dict[str, Any]) -> None:
    watch = Watch(stage, "--once")
    deadline_s = time.monotonic() + LIMIT_S
    while not os.waitpid(watch.pid, os.WNOHANG)[0]:
        assert time.monotonic() < deadline_s
        watch.take()
    watch.take()
    os.close(watch.terminal)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", watch.shown.decode()).splitlines()
    assert len(lines) == 3 and lines[1].rstrip().endswith("mem% disk% out")
    assert max(map(len, lines)) <= 80
