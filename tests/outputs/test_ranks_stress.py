"""Programs of several ranks that make, rename and remove the same names at once: in the end all
ranks see the same, and so does the output directory."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest
from fault_tools import make_ranks
from mpiexec import needs_ranks

PROGRAM = """
import errno, hashlib, json, os, random, sys, time
rank, size = int(os.environ["FANSTORE_RANK"]), int(os.environ["FANSTORE_WORLD_SIZE"])
meeting, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.chdir(os.environ["FANSTORE_MOUNT_PREFIX"])
rng = random.Random(seed * 100 + rank)
PLACES = ["", "in/", "a/", "a/b/", f"of{rank}/"]
ALLOWED = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR,
           errno.EINVAL, errno.ETXTBSY}

def meet(name):
    open(f"{meeting}/{name}-{rank}", "w").close()
    while not all(os.path.exists(f"{meeting}/{name}-{r}") for r in range(size)):
        time.sleep(0.01)

def path():
    return rng.choice(PLACES) + rng.choice("xyz")

def write(name, text):
    with open(name, "w") as stream:
        stream.write(text)

def save(name, text):
    own = rng.choice(PLACES) + f"new-{rank}"
    write(own, text)
    os.rename(own, name)

def step(number):
    text = f"{rank} {number} " * rng.randrange(1, 200)
    kind = rng.randrange(10)
    if kind < 4:
        save(path(), text)
    elif kind == 4:
        write(path(), text)
    elif kind == 5:
        os.unlink(path())
    elif kind == 6:
        os.rename(path(), path())
    elif kind == 7:
        os.makedirs(rng.choice(["a", "a/b", f"of{rank}"]), exist_ok=True)
    elif kind == 8:
        os.rmdir(rng.choice(["a", "a/b"]))
    else:
        with open(path()) as stream:
            found = stream.read()
        assert len({tuple(found.split()[:2])}) <= 1

def census():
    found = {}
    for folder, directories, files in os.walk("."):
        for name in directories:
            found[os.path.relpath(f"{folder}/{name}")] = None
        for name in files:
            with open(f"{folder}/{name}", "rb") as stream:
                digest = hashlib.sha256(stream.read()).hexdigest()
            found[os.path.relpath(f"{folder}/{name}")] = digest
    return found

meet("begun")
for number in range(steps):
    try:
        step(number)
    except OSError as error:
        assert error.errno in ALLOWED, error
meet("done")
with open(f"{meeting}/census-{rank}", "w") as stream:
    json.dump(census(), stream)
meet("said")
"""


@needs_ranks
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.soak
def test_all_see_the_same_in_the_end(tmp_path: Path, size: int, seed: int) -> None:
    ranks = make_ranks(tmp_path, {"in/put": b"an input"})
    meeting, output = tmp_path / "meeting", tmp_path / "output"
    meeting.mkdir()
    program = [sys.executable, "-c", PROGRAM, str(meeting), str(seed), "120"]
    with ranks.running(size, program, "--output-dir", str(output)) as run:
        assert run.end() == [0] * size, run.said()
    seen = [json.loads((meeting / f"census-{rank}").read_text()) for rank in range(size)]
    assert seen == [seen[0]] * size
    assert len(seen[0]) > 3
    del seen[0]["in/put"]
    placed = {
        os.fspath(path.relative_to(output)): None
        if path.is_dir()
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in output.rglob("*")
    }
    seen[0].pop("in", None)
    placed.pop("in", None)
    assert placed == seen[0], run.said()
    run.check_nothing_left()
