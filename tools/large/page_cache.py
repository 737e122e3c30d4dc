"""Holds the page cache of each rank to some bytes, as on a node whose memory is full, by a memory
cgroup of version 1 for each rank. Its limit follows what the rank's processes use beside the page
cache. Needs root."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup/memory")
_STEP_S = 0.02
_SLACK_BYTES = 8 << 20
_END_S = 10


def _used_else(group: Path) -> int:
    """Returns the bytes of a group that are not page cache of files on a disk."""
    lines = (group / "memory.stat").read_text().splitlines()
    stat = {name: int(value) for name, value in map(str.split, lines)}
    used = int((group / "memory.usage_in_bytes").read_text())
    return used - stat["total_cache"] + stat["total_shmem"]


def _follow(groups: list[Path], held_bytes: int, ended: threading.Event) -> None:
    while not ended.wait(_STEP_S):
        for group in groups:
            limit = _used_else(group) + held_bytes + _SLACK_BYTES
            with contextlib.suppress(OSError):  # busy: not everything can be dropped at once
                (group / "memory.limit_in_bytes").write_text(str(limit))


@contextlib.contextmanager
def held(ranks: int, held_bytes: int) -> Iterator[str]:
    """Yields a shell command with which a process of rank $PMI_RANK enters its group."""
    top = f"fanstore-formats-{os.getpid()}"
    groups = [_GROUPS / f"{top}-{rank}" for rank in range(ranks)]
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(groups, held_bytes, ended))
    for group in groups:
        group.mkdir()
        # A process that finds no room waits until the limit has followed.
        (group / "memory.oom_control").write_text("1")
    thread.start()
    try:
        yield f"echo $$ > {_GROUPS}/{top}-${{PMI_RANK:-0}}/cgroup.procs"
    finally:
        ended.set()
        thread.join(_END_S)
        for group in groups:
            group.rmdir()
