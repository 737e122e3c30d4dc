"""Nothing is left in the temporary directory or in shared memory: many processes, some killed."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from serving import Stage, children, make_stage, shared_memory, wait_for

# Holds all kinds of things open: inputs, a materialised one, a mapping, a listing, an output.
HOLDER = """
import mmap, os, sys, time
top = sys.argv[1]
files = [os.open(f"{top}/{name}", os.O_RDONLY) for name in sorted(os.listdir(top))]
null = os.open(os.devnull, os.O_WRONLY)
os.sendfile(null, files[0], 0, 1000)
mapping = mmap.mmap(files[1], 0, prot=mmap.PROT_READ)
listing = os.scandir(top)
next(listing)
output = open(f"{top}/output-{os.getpid()}", "w")
output.write("half")
output.flush()
os.write(1, b"held\\n")
time.sleep(600)
"""

# A hundred short processes, then holders that are killed: a child, and a child's child with it.
SCRIPT = """
n=100; while [ $n -gt 0 ]; do cat "$2/f00" >/dev/null; n=$((n-1)); done
for way in plain fork; do
    if [ $way = plain ]; then "$0" -c "$1" "$2" >"$3" & else ("$0" -c "$1" "$2" >"$3"; :) & fi
    held=$!
    until [ -s "$3" ]; do sleep 0.1; done
    rm "$3"
    for child in $(cat /proc/$held/task/$held/children); do
        kill -9 $child
        n=200; while [ -e /proc/$child/exe ] && [ $n -gt 0 ]; do sleep 0.1; n=$((n-1)); done
    done
    kill -9 $held
    wait $held
done
echo done
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    (tmp_path / "tmp").mkdir()
    return make_stage(tmp_path)


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or waits only to be asked for its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def check_nothing_left(stage: Stage, before: set[str]) -> None:
    assert stage.leftovers() == []
    assert os.listdir(stage.path / "tmp") == []
    assert shared_memory() <= before, "in shared memory"


def arguments(stage: Stage, dataset: Path) -> list[str]:
    return ["run", "--quiet", "--dataset", str(dataset), "--mount", str(stage.mount),
            "--output-dir", str(stage.path / "out"), "--"]  # fmt: skip


def test_processes_that_were_killed_leave_nothing(stage: Stage) -> None:
    before = shared_memory()
    dataset = stage.dataset(None, "data", "--codec", "lz4")
    command = ["/bin/sh", "-c", SCRIPT, sys.executable, HOLDER, str(stage.mount),
               str(stage.path / "said")]  # fmt: skip
    done = stage.call(*arguments(stage, dataset), *command, TMPDIR=str(stage.path / "tmp"))
    assert done.stdout == "done\n"
    made = [path.name for path in stage.path.glob("out/*")]
    assert len(made) == 2 and all(name.endswith(".partial") for name in made), made
    check_nothing_left(stage, before)


def test_a_job_that_was_killed_whole_leaves_nothing_after_the_next(stage: Stage) -> None:
    before = shared_memory()
    dataset = stage.dataset()
    environment = {"TMPDIR": str(stage.path / "tmp")}
    command = [*arguments(stage, dataset), sys.executable, "-c", HOLDER, str(stage.mount)]
    with stage.running(*command, stderr=None, **environment) as wrapper:
        assert wrapper.stdout is not None
        assert wrapper.stdout.readline() == "held\n"
        own = children(wrapper.pid)
        for pid in [wrapper.pid, *own]:
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: all(has_ended(pid) for pid in own), "the end of what was killed")
    stage.call(*arguments(stage, dataset), "true", **environment)
    check_nothing_left(stage, before)
