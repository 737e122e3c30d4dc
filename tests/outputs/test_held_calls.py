"""A rank removes or renames its own entry, and between its look at the name and the kernel's call
another rank gets that name: in the end all ranks see the same, and so does the output directory."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from fault_tools import make_ranks
from mpiexec import needs_ranks
from soak import sampled

from fanstore.outputs.model.entries import keeper_of

PROGRAM = """
import json, os, sys, time
held, keeper, before, call, other = sys.argv[1:]
rank, size = int(os.environ["FANSTORE_RANK"]), int(os.environ["FANSTORE_WORLD_SIZE"])
os.chdir(os.environ["FANSTORE_MOUNT_PREFIX"])

def tell(name):
    open(f"{held}/{name}", "w").close()

def wait_for(name):
    deadline = time.monotonic() + 60
    while not os.path.exists(f"{held}/{name}"):
        assert time.monotonic() < deadline, name
        time.sleep(0.001)

def meet(name):
    tell(f"{name}-{rank}")
    for each in range(size):
        wait_for(f"{name}-{each}")

def save(name, text):
    with open(f"new-{rank}", "w") as stream:
        stream.write(text)
    os.rename(f"new-{rank}", name)

def census():
    found = {}
    for folder, directories, files in os.walk("."):
        for name in files:
            with open(f"{folder}/{name}") as stream:
                found[os.path.relpath(f"{folder}/{name}")] = stream.read()
    for name in ("z", "y", "c/z", "c/y", "d/f", "e/f"):
        assert os.path.exists(name) == (name in found), name
    return found

if rank == int(keeper):
    exec(before)
    tell("hold")
    os.environ["HELD"] = held
    exec(call)
    del os.environ["HELD"]
elif rank == (int(keeper) + 1) % size:
    wait_for("waits")
    exec(other)
    os.remove(f"{held}/hold")
meet("done")
with open(f"{held}/census-{rank}", "w") as stream:
    json.dump(census(), stream)
meet("said")
"""
SIZE = 3
KEEPER = keeper_of(0, b"", SIZE)
SAVE, OTHER = "save('z', 'own')", "save('z', 'other')"


HELD = {
    "remove": (SAVE, "os.unlink('z')", OTHER, {}),
    "rename": (SAVE, "os.rename('z', 'y')", OTHER, {"y": "other"}),
    "rename-over": (SAVE + "; save('y', 'new')", "os.rename('y', 'z')", OTHER, {"z": "new"}),
    "rename-below": (
        "os.mkdir('c'); save('c/y', 'new'); save('c/z', 'own')",
        "os.rename('c/y', 'c/z')",
        "save('c/z', 'other')",
        {"c/z": "new"},
    ),
    "rename-directory": (
        "os.mkdir('d')",
        "os.rename('d', 'e')",
        "save('d/f', 'other')",
        {"e/f": "other"},
    ),
}


@needs_ranks
@pytest.mark.parametrize("name", sampled(HELD, ["rename-below"]))
def test_another_rank_gets_the_name_just_before(tmp_path: Path, name: str) -> None:
    before, call, other, after = HELD[name]
    compiler = shlex.split(os.environ.get("CC", "cc"))
    source, library = Path(__file__).with_name("held_calls.c"), str(tmp_path / "held.so")
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    ranks = make_ranks(tmp_path, {"in/put": b"an input"})
    held, output = tmp_path / "held", tmp_path / "output"
    held.mkdir()
    arguments = [str(held), str(KEEPER), before, call, other]
    command = [sys.executable, "-c", PROGRAM, *arguments]
    options = ("--output-dir", str(output))
    with ranks.running(SIZE, command, *options, LD_PRELOAD=library) as run:
        assert run.end() == [0] * SIZE, run.said()
    seen = [json.loads((held / f"census-{rank}").read_text()) for rank in range(SIZE)]
    assert seen == [{**after, "in/put": "an input"}] * SIZE
    placed = {
        os.fspath(path.relative_to(output)): path.read_text()
        for path in output.rglob("*")
        if path.is_file()
    }
    assert placed == after
    run.check_nothing_left()
