"""Whoever is killed, and whenever: each file that was closed is in the output directory, once and
under its last name, or kept on the node and named."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from fault_tools import command_of, make_ranks
from mpiexec import needs_ranks
from serving import Stage, daemon_of, make_stage, runs, wait_for
from soak import combined, sampled

from fanstore._native import ffi
from fanstore.outputs.tree.passes import StageOut
from fanstore.outputs.tree.placed import FILE, Header, Placed
from fanstore.outputs.tree.target import Target

COUNT = 40
PROGRAM = """
import os
os.chdir(os.environ["FANSTORE_MOUNT_PREFIX"])
for k in range(4):
    os.makedirs(f"o{k}")
"""
RENAMING = """
import os, sys, time
here, delay_s = sys.argv[1], float(sys.argv[2])
names = [f"o{i % DIRECTORIES}/f{i}" for i in range(COUNT)]
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
os.rename("o2", "moved")
time.sleep(delay_s)
os.rename("moved", "o2")
for name in names:
    os.rename(name.replace("/f", "/g"), name)
open(f"{here}/ready", "w").close()
while not os.path.exists(f"{here}/go"):
    time.sleep(0.01)
""".replace("COUNT", str(COUNT))

# Each rank makes a directory; the one that is harmed writes into all of them.
RANKS_PROGRAM = """
import os, sys, time
rank = int(os.environ["FANSTORE_RANK"])
here = sys.argv[1]
os.chdir(os.environ["FANSTORE_MOUNT_PREFIX"])
os.mkdir(f"o{rank}")
while not all(os.path.isdir(f"o{k}") for k in range(3)):
    time.sleep(0.01)
if rank == HARMED:
    exec(open(f"{here}/program").read())
while not os.path.exists(f"{here}/go"):
    time.sleep(0.01)
"""
HARMED = 1

DELAYS_S = (0, 0.1, 0.2, 0.3, 0.5, 1)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def found(stage: Stage) -> Counter[str]:
    """What each file in the output directory, or kept on the node, was called when it was made."""
    tops = [stage.path / "out", *stage.local.glob(".fanstore-*/unstaged/*")]
    files = [path for top in tops for path in top.rglob("*") if path.is_file()]
    return Counter(path.read_text().partition("\n")[0] for path in files)


@pytest.mark.parametrize(
    "delay_s, victim",
    combined(sampled(DELAYS_S, [0, 0.3]), ["daemon", "wrapper", "both", "command"]),
)
def test_renamed_there_and_back(stage: Stage, victim: str, delay_s: float) -> None:
    data = stage.dataset(stage.source(files={"input": b"input"}))
    where = ["--dataset", str(data), "--mount", str(stage.mount)]
    where += ["--output-dir", str(stage.path / "out")]
    program = PROGRAM + RENAMING.replace("DIRECTORIES", "4")
    command = [sys.executable, "-c", program, str(stage.path), str(delay_s)]
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


RANKS_VICTIMS = ("daemon", "wrapper", "mpiexec", "both", "command")


@needs_ranks
@pytest.mark.parametrize("delay_s", sampled(DELAYS_S, [0.3]))
@pytest.mark.parametrize("victim", sampled(RANKS_VICTIMS, ["daemon"]))
def test_renamed_there_and_back_by_one_of_several_ranks(
    tmp_path: Path, victim: str, delay_s: float
) -> None:
    ranks = make_ranks(tmp_path, {"input": b"an input"})
    out, go = tmp_path / "out", tmp_path / "go"
    (tmp_path / "program").write_text(RENAMING.replace("DIRECTORIES", "3"))
    program = RANKS_PROGRAM.replace("HARMED", str(HARMED))
    command = [sys.executable, "-c", program, str(tmp_path), str(delay_s)]
    with ranks.running(3, command, "--output-dir", str(out)) as run:
        wait_for((tmp_path / "ready").exists, "the program")
        run.note_processes()
        if victim == "mpiexec":
            run.process.kill()
        else:
            run.kill(HARMED, *(("daemon", "wrapper") if victim == "both" else (victim,)))
        go.touch()
        with contextlib.suppress(AssertionError):
            run.end()
        wait_for(lambda: not run.still_running(), "the end of all processes")
    for rank in range(3):
        ranks.tidy(rank)
    made = [f"o{i % 3}/f{i}" for i in range(COUNT)]
    tops = [out, *tmp_path.rglob("unstaged")]
    files = [path for top in tops for path in top.rglob("*") if path.is_file()]
    assert Counter(path.read_text().partition("\n")[0] for path in files) == Counter(made)
    for name in made:
        assert (out / name).read_text().startswith(f"{name}\n")
    run.check_nothing_left()


class KilledMeanwhile:
    """The segment of a job in which a writer is killed once a pass has looked who writes what."""

    def __init__(self, inode: int) -> None:
        self.written: set[int] = set()
        self._inode = inode
        self._looks = 0

    def moves(self) -> tuple[int, int]:
        return 0, 0

    def unfinished(self, is_written: object) -> set[int]:
        self._looks += 1
        self.written = {self._inode} if self._looks == 1 else set()
        return set() if self._looks == 1 else {self._inode}

    def forget(self, inodes: set[int]) -> None:
        pass


def test_a_writer_killed_during_a_pass_has_not_finished(tmp_path: Path) -> None:
    """Nobody can write to its file by then; all the same it is not what its name stands for."""
    tree, out = tmp_path / "tree", tmp_path / "out"
    tree.mkdir()
    (tree / "half").write_text("half")
    header = Header("job", str(out), ("",), 0o022, True)
    shared = KilledMeanwhile(os.stat(tree / "half").st_ino)
    stage_out = StageOut(
        [(b"", os.fsencode(tree))], Target(header), Placed(str(tmp_path / FILE), header),
        shared, ffi.new("int32_t *"),  # type: ignore[arg-type]
    )  # fmt: skip
    assert stage_out.run(last=False).busy == {b"half"}
    assert not (out / "half").exists()
    assert stage_out.run(last=False).partials == {b"half.partial"}
    assert not (out / "half").exists() and (out / "half.partial").read_text() == "half"


DEEP = """
import os
os.chdir(os.environ["FANSTORE_MOUNT_PREFIX"])
open("beside", "w").write("beside")
for _ in range(1500):
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
