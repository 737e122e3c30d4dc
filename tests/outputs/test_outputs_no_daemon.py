"""The node daemon was killed: inputs and outputs stay what they are."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from serving import Stage, daemon_of, make_stage, wait_for

FILES = {"a": b"a", "d/b": b"b", "d/e/c": b"c"}

COMMAND = """
import errno, json, os, sys, time
top, here = os.environ["FANSTORE_MOUNT_PREFIX"], sys.argv[1]
os.chdir(top)
os.mkdir("new")
for name in ("log", "d/log", "new/log"):
    open(name, "w").write(name)
open(f"{here}/ready", "w").close()
while not os.path.exists(f"{here}/go"):
    time.sleep(0.01)

def told(call, *args):
    try:
        return call(*args)
    except OSError as error:
        return error.errno

found = {
    "root": told(os.listdir, "."), "d": told(os.listdir, "d"), "e": told(os.listdir, "d/e"),
    "walk": [name for _, _, names in os.walk(top) for name in sorted(names)],
    "scan": told(lambda: sorted(e.name for e in os.scandir("d") if e.stat().st_size == 1)),
    "stat": told(lambda: os.stat("d/b").st_size),
    "read": told(lambda: open("d/b").read()),
    "missing": told(os.stat, "d/missing"), "elsewhere": told(os.stat, "d/e/missing"),
    "output": told(lambda: open("log").read()), "made": told(os.listdir, "new"),
    "create": told(lambda: open("d/new", "w").write("1")),
    "create_apart": told(os.mkdir, "d/e/new"),
}
json.dump(found, open(f"{here}/found", "w"))
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def test_inputs_beside_outputs_stay(stage: Stage) -> None:
    """They are listed, found and read, and new ones are made."""
    dataset = stage.dataset(stage.source(files=FILES))
    where = ["--dataset", str(dataset), "--mount", str(stage.mount)]
    out = ["--output-dir", str(stage.path / "out")]
    command = [sys.executable, "-c", COMMAND, str(stage.path)]
    with stage.running("run", *where, *out, "--", *command) as run:
        wait_for((stage.path / "ready").exists, "the outputs")
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        wait_for(lambda: not daemon_of(run.pid), "the wrapper to notice")
        (stage.path / "go").touch()
        _, stderr = run.communicate(timeout=60)
    assert run.returncode == 125, stderr
    found = json.loads((stage.path / "found").read_text())
    listed = {name: sorted(found.pop(name)) for name in ("root", "d", "e")}
    assert listed == {"root": ["a", "d", "log", "new"], "d": ["b", "e", "log"], "e": ["c"]}
    assert found == {
        "walk": ["a", "log", "b", "log", "c", "log"], "scan": ["b"], "stat": 1, "read": "b",
        "missing": errno.ENOENT, "elsewhere": errno.ENOENT, "output": "log", "made": ["log"],
        "create": 1, "create_apart": None,
    }  # fmt: skip
    made = subprocess.run(["find", str(stage.path / "out"), "-type", "f"], capture_output=True)
    assert len(made.stdout.split()) == 4, "all of them are rescued"
