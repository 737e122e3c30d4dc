"""If the packs may not fit into memory, a read brings only its own bytes from the disk; the kernel
would bring many more around them."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage

PAGE = 4096
LARGE_BYTES, SMALL_BYTES, SMALL = 24 << 20, 8192, 200
# The job's programs import this at their start.
SHORT = """
import fanstore.staging.memory as memory
memory.left_bytes = lambda: 2 << 20
"""
# Drops the packs of all ranks from memory, reads here and there, and prints how many bytes of packs
# are in memory then.
READ = """
import ctypes, mmap, os, sys
from fanstore.job.jobs import FoundJob, ask_status
top, mount, source, how = sys.argv[1:]
libc = ctypes.CDLL(None)
found = [os.path.join(place, name) for place, _, names in os.walk(top) for name in names]
packs = [os.open(p, os.O_RDWR) for p in found if p.endswith(".fsp") and "/data/" not in p]
maps = [mmap.mmap(fd, 0) for fd in packs]

def resident():
    total = 0
    for each in maps:
        pages = (ctypes.c_ubyte * -(-len(each) // 4096))()
        at = ctypes.addressof(ctypes.c_char.from_buffer(each))
        assert libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(len(each)), pages) == 0
        total += sum(page & 1 for page in pages)
    return total * 4096

names = [f"small/{n}" for n in range(20, 180, 40)]
with open(mount + "/" + names[0], "rb"), open(mount + "/large", "rb"):
    pass
for fd in packs:
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
before = resident()
if how == "rows":
    sizes = [(name, at, 8192) for name in ["large"] for at in (3 << 20, 21 << 20, 10 << 20)]
else:
    sizes = [(name, 0, 8192) for name in names]
for name, at, size in sizes:
    fd = os.open(f"{mount}/{name}", os.O_RDONLY)
    with open(f"{source}/{name}", "rb") as plain:
        plain.seek(at)
        assert os.pread(fd, size, at) == plain.read(size)
    os.close(fd)
foresees = ask_status(FoundJob(os.environ["FANSTORE_JOB_DIR"], True)).node is not None
print(before, resident() - before, len(sizes), int(foresees))
"""


def brought(place: Path, ranks: int, how: str, short: bool) -> tuple[int, int]:
    """How many bytes of packs some reads of the first rank brought, and the number of reads."""
    place.mkdir()
    rng = random.Random(1)
    files = {f"small/{n}": rng.randbytes(SMALL_BYTES) for n in range(SMALL)}
    files["large"] = rng.randbytes(LARGE_BYTES)
    stage = make_rank_stage(place, ranks)
    source = stage.source(files=files)
    dataset = stage.dataset(source)
    (place / "python").mkdir()
    (place / "python" / "sitecustomize.py").write_text(SHORT if short else "")
    command = [sys.executable, "-c", READ, str(place), str(stage.mount_of(0)), str(source), how]
    only = ["sh", "-c", 'test "$FANSTORE_RANK" != 0 || exec "$@"', "sh", *command]
    done = stage.finished(
        stage.run_argv(ranks, [dataset], only, ["--order", "off"]),
        PYTHONPATH=os.pathsep.join([str(place / "python"), os.environ.get("PYTHONPATH", "")]),
    )
    before, more, reads, foresees = map(int, done.stdout.split())
    assert foresees == (short or ranks > 1)  # it may bring what is on the own disk ahead
    if before > 1 << 20:
        pytest.skip("this file system keeps the pages of files in memory")
    return more, reads


@pytest.mark.parametrize(
    ("ranks", "how"),
    [
        (1, "rows"), (1, "files"), pytest.param(2, "files", marks=needs_ranks),
        pytest.param(2, "rows", marks=[needs_ranks, pytest.mark.soak]),
    ],
)  # fmt: skip
def test_only_what_is_read_comes_to_memory(tmp_path: Path, ranks: int, how: str) -> None:
    """With two ranks, the other rank's daemon reads what is not here."""
    usual, _ = brought(tmp_path / "usual", ranks, how, short=False)
    more, reads = brought(tmp_path / "short", ranks, how, short=True)
    assert more <= reads * (8192 + 4 * PAGE) < usual, (more, usual)
