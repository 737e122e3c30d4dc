"""FanStore's code in a job of torch calls no code of the job more often than the job does, and
changes neither its batches nor its exceptions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Stage, make_stage
from soak import sampled

pytest.importorskip("torch")
_JOB = str(Path(__file__).with_name("guest_job.py"))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    files = {f"c{n % 7}/{n:03}": bytes([n, 255 - n, n // 3] * 8) for n in range(101)}
    stage.dataset(stage.source(files=files))
    return stage


def lines(text: str) -> list[str]:
    """Returns the lines, without the process numbers of workers."""
    return [line for line in text.splitlines() if "DataLoader worker (pid" not in line]


@pytest.mark.parametrize("workers", sampled(["0", "2"], ["0"]))
def test_calls_batches_and_exceptions_are_those_without_fanstore(
    stage: Stage, workers: str
) -> None:
    mount = stage.path / "plain"  # where the files are, too
    command = (sys.executable, _JOB, str(mount), workers)
    plain = subprocess.run(command, capture_output=True, text=True, check=True)
    done = stage.call(
        "run", "--dataset", str(stage.path / "data"), "--mount", str(mount), "--", *command
    )
    assert plain.stdout.count("Traceback") >= 12
    assert lines(done.stdout) == lines(plain.stdout)
    assert "order of reading known for" in done.stderr


def test_a_tool_that_traces_finds_no_files_of_fanstore(stage: Stage) -> None:
    """Such a tool, as coverage, looks for their text after the job."""
    code = (
        "import os, sys\n"
        "names = set()\n"
        "sys.setprofile(lambda frame, event, _: names.add(frame.f_code.co_filename))\n"
        "from torch.utils import data\n"
        "print(len(list(data.DataLoader([1, 2, 3], shuffle=True))))\n"
        "sys.setprofile(None)\n"
        "print([name for name in names if 'fanstore' in name and name[0] != '<'])\n"
    )
    done = stage.run(stage.path / "data", sys.executable, "-c", code)
    assert done.stdout == "3\n[]\n", os.linesep + done.stderr
