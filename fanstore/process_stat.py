"""Reads the state of a process or thread from /proc/PID/stat (proc(5))."""

from __future__ import annotations

from typing import NamedTuple


class ProcessStat(NamedTuple):
    """The state of a process. state: a letter; parent, group: process ids; start_ticks: when it
    began, in clock ticks since the boot of the machine."""

    state: str
    parent: int
    group: int
    start_ticks: int

    @property
    def runs(self) -> bool:
        """Whether the process has not ended; a zombie has ended."""
        return self.state not in ("Z", "X")


def stat_of(process: int | str) -> ProcessStat | None:
    """Returns the state of a process, or of a thread "PID/task/TID"; None if there is none. Raises
    OSError if the file cannot be read, for example if no descriptor is free."""
    try:
        with open(f"/proc/{process}/stat", "rb") as stream:
            # The name of the program comes before these fields, and may contain any character.
            fields = stream.read().rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if not fields:  # it ended during the read
        return None
    return ProcessStat(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[19]))
