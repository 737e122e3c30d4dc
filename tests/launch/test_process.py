"""How the daemon looks at the command, which is not its child and may end at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import make_stage

from fanstore.node.process import Process


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_process_that_ends_while_it_is_looked_at(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(pid: int) -> int:
        raise ProcessLookupError(pid)

    monkeypatch.setattr(os, "getpgid", gone)
    process = Process(child.pid)
    process.kill()
    assert child.wait(10) == -signal.SIGKILL
    assert process.wait(0)


def test_a_later_process_of_the_same_number_is_left_alone(child: subprocess.Popen[bytes]) -> None:
    process = Process(child.pid)
    process._start = 1  # as if it had begun before this one
    process.kill()
    time.sleep(0.1)
    assert child.poll() is None and not process.runs()


def test_what_the_daemon_dies_of_is_said(tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        "import fanstore.node.process as process\n"
        "def broken(self, pid):\n"
        "    raise ValueError('as the test wants')\n"
        "process.Process.__init__ = broken\n"
    )
    dataset = stage.dataset()
    where = ("--dataset", str(dataset), "--mount", str(stage.mount))
    path = os.pathsep.join([str(tmp_path / "broken"), os.environ.get("PYTHONPATH", "")])
    done = stage.call("run", *where, "--", "true", code=125, PYTHONPATH=path)
    assert "node daemon: ValueError: as the test wants" in done.stderr
    assert "the node daemon died; what it left has been removed" in done.stderr
    assert stage.leftovers() == []
