"""Reads how much memory is left on this machine and in this process's control group, and whether
the kernel killed a process because memory ran out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path


def _read_number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as stream:
            text = stream.read().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _read_table(path: str) -> dict[str, int]:
    try:
        with open(path, encoding="ascii") as stream:
            pairs = (line.split() for line in stream)
            return {key: int(value) for key, value in pairs}
    except (OSError, ValueError):
        return {}


def _group_directories(root: str, membership: str) -> Iterator[tuple[str, str, str]]:
    """Yields (directory, limit file, usage file) of each control group, from this process's own up
    to the root."""
    try:
        with open(membership, encoding="utf-8") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, files = root, ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            top = os.path.join(root, "memory")
            files = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        parts = [part for part in path.split("/") if part]
        for depth in range(len(parts), -1, -1):
            yield os.path.join(top, *parts[:depth]), *files


def available_bytes(
    root: str = "/sys/fs/cgroup", membership: str = "/proc/self/cgroup"
) -> int | None:
    """Returns how many more bytes of memory the control group allows, or None without a limit. File
    pages count as available: the kernel drops them before it refuses memory."""
    rooms = []
    for directory, limit_file, usage_file in _group_directories(root, membership):
        limit = _read_number(os.path.join(directory, limit_file))
        usage = _read_number(os.path.join(directory, usage_file))
        if limit is None or usage is None or limit >= 1 << 62:
            continue
        stat = _read_table(os.path.join(directory, "memory.stat"))
        cache = stat.get("active_file", 0) + stat.get("inactive_file", 0)
        rooms.append(max(0, limit - usage + min(cache, usage)))
    return min(rooms, default=None)


def left_bytes() -> int:
    """Returns how many bytes of memory this process and its children may still use: the available
    memory of the machine, or less if the control group allows less."""
    table = Path("/proc/meminfo").read_text("ascii")
    kib = re.search(r"^MemAvailable:\s*(\d+) kB$", table, re.MULTILINE)
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    machine = total if kib is None else int(kib[1]) << 10
    group = available_bytes()
    return machine if group is None else min(machine, group)


def kill_count(root: str = "/sys/fs/cgroup", membership: str = "/proc/self/cgroup") -> int | None:
    """Returns how many processes of this process's control group were killed because memory ran
    out; None if that cannot be read."""
    for directory, limit_file, _ in _group_directories(root, membership):
        name = "memory.events" if limit_file == "memory.max" else "memory.oom_control"
        count = _read_table(os.path.join(directory, name)).get("oom_kill")
        if count is not None:
            return count
    return None


class KillWatch:
    """Tells whether a child was killed because memory ran out. Create it before you start the
    child."""

    def __init__(self) -> None:
        self._before = kill_count()

    def reason(self) -> str:
        """Returns the reason for the kill, as the end of a sentence; "" if memory was not the
        reason."""
        now = kill_count()
        if now is None or self._before is None or now <= self._before:
            return ""
        return ": the memory limit of the job (its control group) was reached"


def hint_for(in_memory: bool) -> str:
    """Returns advice for users whose job's staging used too much memory. in_memory: the local
    directory is a tmpfs."""
    if in_memory:
        return "what is staged in memory counts: use a --local-dir on a disk, or --in-place"
    return "give the job more memory, or use --in-place"
