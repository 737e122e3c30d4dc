"""Files of a directory change while programs of a job read them: each read gets one version whole,
or EIO, and never bytes of two."""

from __future__ import annotations

import mmap
import os
import shlex
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from directories import old, run
from serving import Stage, make_stage, wait_for
from soak import sampled

READERS = 4
SIZES = (100, 4096, 20_000, 70_000)

# A table of 32-bit words in shared memory: the file that changes now, one more than the file that
# each reader is done with, and of each file whether its change has begun (1) or ended (2). Reader n
# reads the present file again and again. It compares with the words before and after each open.
READER = """
import errno, mmap, os, sys, time
source, table, reader, files = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
READERS = int(sys.argv[5])
with open(table, "r+b") as stream:
    words = memoryview(mmap.mmap(stream.fileno(), 0)).cast("I")
os.chdir(source)
counts = dict.fromkeys(("old", "new", "eio", "gone", "racing", "mixed"), 0)

def wait(at, least):
    deadline = time.monotonic() + 60
    while words[at] < least:
        os.sched_yield()
        assert time.monotonic() < deadline

def read(fd, at, style, phase):
    if style == 1 and phase == 0:
        wait(at, 1)
    parts = [os.read(fd, 50 if style == 2 else 1 << 24)]
    if style == 2:
        wait(at, 2)
    while parts[-1]:
        parts.append(os.read(fd, 1 << 24))
    return b"".join(parts)

def look(name, style):
    at, kind = 1 + READERS + name, KINDS[name % len(KINDS)]
    before, after = words[at], 0
    try:
        fd = os.open(f"{name:05}", os.O_RDONLY)
        after = words[at]
        try:
            content = read(fd, at, style, before)
        finally:
            os.close(fd)
    except OSError as error:
        known = {errno.EIO: "eio", errno.ENOENT: "gone" if "removed" in kind else "mixed"}
        return known.get(error.errno, "mixed") if words[at] else "mixed"
    seen = {length: bytes([value]) for length, value in versions(name, kind)}
    if content == len(content) * seen.get(len(content), b""):
        return "old" if len(content) == versions(name, kind)[0][0] else "new"
    # A plain file that is being written, which differs from the listing already.
    racing = before < 2 and after > 0
    is_part = kind == "removed and made" and set(content) == {versions(name, kind)[1][1]}
    return "racing" if racing and (kind == "rewritten" or is_part) else "mixed"

for name in range(files):
    wait(0, name)
    style = (name + reader) % 3
    while True:
        at_end = words[1 + READERS + name] == 2
        found = look(name, style if not at_end else 0)
        counts[found] += 1
        if found == "mixed":
            sys.stderr.write(f"{name} {KINDS[name % len(KINDS)]} style {style}\\n")
        if at_end:
            break
    words[1 + reader] = name + 1
sys.stdout.write(" ".join(map(str, counts.values())) + "\\n")
"""

# The changes of a file: its lengths and bytes before and after.
VERSIONS = f"""
KINDS = ("rewritten", "truncated", "replaced", "removed", "removed and made")
def versions(name, kind):
    size = {SIZES}[name % {len(SIZES)}]
    if name % 9 == 8:
        size = 1 << 20  # takes long to read, so that more changes meet a read
    if name % 199 == 198:
        size = 9 << 20  # too long to be kept on the disk by the first read
    value = 1 + name % 100
    later = {{"truncated": (size // 2, value), "removed": (size, value)}}
    return (size, value), later.get(kind, (size + 7, value + 100))
"""
made: dict[str, object] = {}
exec(VERSIONS, made)
KINDS: tuple[str, ...] = made["KINDS"]  # type: ignore[assignment]
versions: Callable[[int, str], tuple[tuple[int, int], ...]] = made["versions"]  # type: ignore[assignment]


def change(path: Path, kind: str, content: bytes) -> None:
    if kind == "rewritten":
        with path.open("r+b", buffering=0) as stream:
            stream.write(content)
    elif kind == "truncated":
        os.truncate(path, len(content))
    elif kind == "replaced":
        other = path.parent.parent / "new"
        other.write_bytes(content)
        other.replace(path)
    else:
        path.unlink()
        if kind == "removed and made":
            path.write_bytes(content)


def storm(source: Path, words: memoryview, files: int) -> None:
    """Changes each file once, when no reader is behind."""
    for name in range(files):
        kind = KINDS[name % len(KINDS)]
        size, value = versions(name, kind)[1]
        words[0] = name
        for _ in range(name * 7 % 50):  # now before the first reads, now in the midst of them
            os.sched_yield()
        words[1 + READERS + name] = 1
        change(source / f"{name:05}", kind, bytes([value]) * size)
        words[1 + READERS + name] = 2
        wait_for(lambda: min(words[1 : 1 + READERS]) > name, "all readers")  # noqa: B023


@pytest.mark.parametrize("files", sampled([200, 10_000], [200]))
@pytest.mark.soak
def test_each_read_gets_one_version(tmp_path: Path, files: int) -> None:
    stage: Stage = make_stage(tmp_path)
    source = stage.source(files={})
    for name in range(files):
        size, value = versions(name, KINDS[name % len(KINDS)])[0]
        (source / f"{name:05}").write_bytes(bytes([value]) * size)
    old(source)
    table = stage.path / "table"
    table.write_bytes(bytes(4 * (1 + READERS + files)))
    with table.open("r+b") as stream:
        words = memoryview(mmap.mmap(stream.fileno(), 0)).cast("I")
    writer = threading.Thread(target=storm, args=(source, words, files), daemon=True)
    of_all = (str(source), str(table)), (str(files), str(READERS))
    readers = [
        shlex.join((sys.executable, "-c", VERSIONS + READER, *of_all[0], str(n), *of_all[1]))
        for n in range(READERS)
    ]
    lazy = ("--stage", "lazy")  # so that files come when they are read, and not before
    writer.start()
    done = run(
        stage, source, "sh", "-c", " & ".join(readers) + " & wait", options=lazy, limit_s=3600
    )
    writer.join(60)
    assert not writer.is_alive()
    found = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    seen_old, seen_new, _, _, _, mixed = map(sum, zip(*found, strict=True))
    assert len(found) == READERS and mixed == 0, done.stderr
    assert seen_old > files and seen_new > 0
