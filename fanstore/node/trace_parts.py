"""Joins the traces of all ranks to one file when the job ends. Separate from trace_file, which
needs NumPy: daemons without a kept trace do not load it."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

from fanstore.trace.sections import MAGIC, file_header

_PIECE_BYTES = 1 << 20


def part_path(file: str, job_id: str) -> str:
    """Returns the path of one rank's trace until the job ends: beside `file`, under a name that no
    other job or rank uses."""
    return f"{file}.{job_id}.part"


class TracePart(NamedTuple):
    """The trace of one rank, at `path` on `host`. problem: why it ends early, or ""."""

    path: str
    problem: str
    rank: int
    host: str


def begun(parts: Sequence[TracePart]) -> list[TracePart]:
    """Returns the parts that are not empty. An empty part, left by a disk that was full from the
    first, is removed and replaces nothing."""
    return [part for part in parts if not _is_removed(part.path)]


def _is_removed(path: str) -> bool:
    with contextlib.suppress(OSError):  # another rank's part may not be visible from here
        if os.path.getsize(path) == 0:
            os.unlink(path)
            return True
    return False


def join_traces(file: str, parts: Sequence[TracePart]) -> list[str]:
    """Replaces `file` by the joined traces of all ranks; for rank 0. Returns the lines to print: a
    part that cannot be seen from here stays where it is."""
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
    """Copies the sections of a trace without its header."""
    with open(path, "rb") as part:
        if part.read(len(file_header()))[: len(MAGIC)] == MAGIC:
            shutil.copyfileobj(part, joined, _PIECE_BYTES)


def place_alone(file: str, part: TracePart, world_size: int) -> list[str]:
    """Renames a rank's own trace to `file`, or on ranks other than 0 to `file`.rankN, if the ranks
    cannot join their traces. Returns the lines to print."""
    path = file if part.rank == 0 else f"{file}.rank{part.rank}"
    try:
        os.rename(part.path, path)
    except OSError as error:
        return [f"trace: {path}: {error.strerror}; it stays at {part.path}"]
    if world_size == 1:
        return []
    return [f"trace: the ranks did not end together: {path} is that of rank {part.rank} alone"]
