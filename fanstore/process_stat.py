"""What the kernel says of a process or thread in /proc/PID/stat (proc(5))."""

from __future__ import annotations

from typing import NamedTuple


class ProcessStat(NamedTuple):
    """state: a letter; parent, group: process ids; start_ticks: when it began, in clock ticks since
    the machine did."""

    state: str
    parent: int
    group: int
    start_ticks: int

    @property
    def runs(self) -> bool:
        """Whether it has not ended; a zombie has."""
        return self.state not in ("Z", "X")


def stat_of(process: int | str) -> ProcessStat | None:
    """Returns what is said of a process, or of a thread "PID/task/TID"; None where there is none.
    Raises OSError where that cannot be known, for want of descriptors say."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stream:
            # The name of the program comes before, and may have any character in it.
            fields = stream.read().rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if not fields:  # it went while it was read
        return None
    return ProcessStat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[19]))
