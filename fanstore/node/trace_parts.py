"""Joins the traces of all ranks into one file when the job ends. A module apart from trace_file, so
that daemons without a kept trace do not load NumPy."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from fanstore.trace.sections import MAGIC, file_header

_PIECE_BYTES = 1 << 20


def part_path(file: str, job_id: str) -> str:
    """Returns the path at which a rank writes its trace until the job ends: next to `file`, with a
    name that no other job or rank uses."""
    return f"{file}.{job_id}.part"


class TracePart(NamedTuple):
    """The trace of one rank, at `path` on `host`. problem: why it ends early, or ""."""

    path: str
    problem: str
    rank: int
    host: str


def begun(parts: Sequence[TracePart]) -> list[TracePart]:
    """Returns the parts that are not empty. Removes an empty part, which a full disk leaves."""
    return [part for part in parts if not _is_removed(part.path)]


def _is_removed(path: str) -> bool:
    with contextlib.suppress(OSError):  # the part may lie on a disk that this node does not see
        if os.path.getsize(path) == 0:
            os.unlink(path)
            return True
    return False


def join_traces(file: str, parts: Sequence[TracePart]) -> list[str]:
    """Replaces `file` by the joined traces of all ranks; rank 0 calls it. A part that this node
    cannot see stays in its place. Returns the lines to print."""
    temporary = f"{parts[0].path}.all"
    said = []
    taken = []
    try:
        with open(temporary, "xb") as joined:
            joined.write(file_header())
            for part in parts:
                try:
                    _append(joined, part.path)
                    taken.append(part.path)
                except FileNotFoundError:
                    said.append(
                        f"trace: the part of rank {part.rank} is not visible from rank 0: it "
                        f"stays at {part.path} on {part.host}"
                    )
        os.rename(temporary, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return [*said, f"trace: {file}: {error.strerror}; it stays at {parts[0].path} and others"]
    for path in taken:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return said


def _append(joined: BinaryIO, path: str) -> None:
    """Appends the sections of the trace at `path`, without its header, to `joined`."""
    with open(path, "rb") as part:
        if part.read(len(file_header()))[: len(MAGIC)] == MAGIC:
            shutil.copyfileobj(part, joined, _PIECE_BYTES)


def place_alone(file: str, part: TracePart, world_size: int) -> list[str]:
    """Renames a rank's own trace to `file`, or to `file`.rankN on ranks other than 0. For ranks
    that cannot join their traces. Returns the lines to print."""
    path = file if part.rank == 0 else f"{file}.rank{part.rank}"
    try:
        os.rename(part.path, path)
    except OSError as error:
        return [f"trace: {path}: {error.strerror}; it stays at {part.path}"]
    if world_size == 1:
        return []
    return [f"trace: the ranks did not end together: {path} is that of rank {part.rank} alone"]
