"""Whoever is killed, and whenever: each file that was closed is in the output directory, once and
under its last name, or kept on the node and named."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from fault_tools import command_of
from serving import Stage, daemon_of, make_stage, runs, wait_for

COUNT = 40
PROGRAM = """
import os, sys, time
os.chdir(os.environ["FANSTORE_MOUNT_PREFIX"])
here, delay_s = sys.argv[1], float(sys.argv[2])
for k in range(4):
    os.makedirs(f"o{k}")
names = [f"o{i % 4}/f{i}" for i in range(COUNT)]
for name in names:
    with open(name, "w") as stream:
        stream.write(name + chr(10) + "x" * 3000)
placed = os.path.join(here, "out")
until_s = time.monotonic() + 20
while not all(os.path.exists(f"{placed}/{name}") for name in names) and time.monotonic() < until_s:
    time.sleep(0.02)
for name in names:
    os.chmod(name, 0o600)
for name in names:
    os.rename(name, name.replace("/f", "/g"))
os.rename("o3", "moved")
time.sleep(delay_s)
os.rename("moved", "o3")
for name in names:
    os.rename(name.replace("/f", "/g"), name)
open(f"{here}/ready", "w").close()
while not os.path.exists(f"{here}/go"):
    time.sleep(0.01)
""".replace("COUNT", str(COUNT))

RARELY = [pytest.param(delay_s, marks=pytest.mark.soak) for delay_s in (0.1, 0.2, 0.5, 1)]
DELAYS_S = [0, 0.3, *RARELY]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def found(stage: Stage) -> Counter[str]:
    """What each file in the output directory, or kept on the node, was called when it was made."""
    tops = [stage.path / "out", *stage.local.glob(".fanstore-*/unstaged/*")]
    files = [path for top in tops for path in top.rglob("*") if path.is_file()]
    return Counter(path.read_text().partition("\n")[0] for path in files)


@pytest.mark.parametrize("delay_s", DELAYS_S)
@pytest.mark.parametrize("victim", ["daemon", "wrapper", "both", "command"])
def test_renamed_there_and_back(stage: Stage, victim: str, delay_s: float) -> None:
    data = stage.dataset(stage.source(files={"input": b"input"}))
    where = ["--dataset", str(data), "--mount", str(stage.mount)]
    where += ["--output-dir", str(stage.path / "out")]
    command = [sys.executable, "-c", PROGRAM, str(stage.path), str(delay_s)]
    with stage.running("run", "--quiet", *where, "--", *command) as run:
        wait_for((stage.path / "ready").exists, "the program")
        daemon, program = daemon_of(run.pid), command_of(run.pid)
        assert daemon and program
        if victim in ("daemon", "both"):
            os.kill(daemon, signal.SIGKILL)
        if victim in ("wrapper", "both"):
            run.kill()
        if victim == "command":
            os.kill(program, signal.SIGKILL)
        (stage.path / "go").touch()
        run.communicate(timeout=60)
        wait_for(lambda: not runs(daemon) and not runs(program), "their end")
    if victim == "both":
        stage.run(data, "true")
    made = [f"o{i % 4}/f{i}" for i in range(COUNT)]
    assert found(stage) == Counter(made)
    for name in made:
        assert (stage.path / "out" / name).read_text().startswith(f"{name}\n")
    assert sorted(path.name for path in (stage.path / "out").iterdir()) == ["o0", "o1", "o2", "o3"]
    assert stage.leftovers() == []


DEEP = """
import os
os.chdir(os.environ["FANSTORE_MOUNT_PREFIX"])
open("beside", "w").write("beside")
for _ in range(8000):
    os.mkdir("deep")
    os.chdir("deep")
open("f", "w").write("deep")
"""


def test_directories_deeper_than_paths_are_long(stage: Stage) -> None:
    """They are kept on the node; no later job, and no clean, minds them."""
    data = stage.dataset(stage.source(files={"input": b"input"}))
    out = ("--output-dir", str(stage.path / "out"))
    done = stage.run(data, sys.executable, "-c", DEEP, options=out, code=125)
    assert "deep/...: its path is longer than the kernel takes" in done.stderr
    assert (stage.path / "out/beside").read_text() == "beside"
    again = stage.run(data, "cat", f"{stage.mount}/input", options=out)
    assert again.stdout == "input"
    stage.call("clean", "--unstaged", "--local-dir", str(stage.local))
    assert stage.leftovers() == []
