"""The daemon's side of the access trace: a thread that frees lanes whose owners have ended (threads
of any process, in this PID namespace or another) and moves notes into the kept trace."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanstore._native import check, ffi, lib
from fanstore.messages.figures import TraceFigures
from fanstore.process_stat import stat_of

if TYPE_CHECKING:
    from fanstore.node.trace_file import KeptTrace


_FIRST_SPACE = 0xEFFFFFFC  # the first PID namespace, which sees all processes (linux/proc_ns.h)
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Owner:
    """The owner of a lane. process: its program's number; space: the inode number of the PID
    namespace of pid and tid, 0 if unknown; claimed_ns: when it claimed the lane, by
    CLOCK_MONOTONIC."""

    process: int
    space: int
    pid: int
    tid: int
    claimed_ns: int


class Census:
    """Finds owners that have ended. Remembers between calls the threads that it saw in other PID
    namespaces."""

    def __init__(self) -> None:
        self._space = _space_of("self")
        self._seen: dict[Owner, str] = {}

    def ended(self, owners: Iterable[Owner]) -> set[Owner]:
        """Returns the owners that have ended. An owner in a PID namespace that this process cannot
        see counts as alive."""
        owners = list(owners)
        latest: dict[tuple[int, int, int], int] = {}
        for owner in owners:
            thread = (owner.space, owner.pid, owner.tid)
            latest[thread] = max(latest.get(thread, 0), owner.process)
        replaced = {  # by an exec: the program's thread has claimed another lane
            each for each in owners if each.process < latest[each.space, each.pid, each.tid]
        }
        here = {each for each in owners if each.space == self._space != 0} - replaced
        away = {each for each in owners if each.space not in (0, self._space)} - replaced
        gone = {each for each in here if not _lives(f"{each.pid}/task/{each.tid}", each.claimed_ns)}
        return replaced | gone | (self._ended_away(away) if away else set())

    def _ended_away(self, owners: set[Owner]) -> set[Owner]:
        """Returns the ended owners among those in other PID namespaces, whose pids differ from the
        ones in this namespace."""
        self._seen = {owner: at for owner, at in self._seen.items() if owner in owners}
        places = _threads_of({owner.space for owner in owners})
        ended = set()
        for owner in owners:
            at = places.get((owner.space, owner.pid, owner.tid))
            if at is not None:
                self._seen[owner] = at
            elif owner in self._seen or self._space == _FIRST_SPACE:
                ended.add(owner)
        return ended


def _space_of(pid: str) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


def _lives(thread: str, claimed_ns: int) -> bool:
    """Returns whether the thread `thread` (PID/task/TID) runs and is the one that claimed the lane:
    it began before claimed_ns."""
    try:
        found = stat_of(thread)
    except OSError:
        return True
    if found is None:
        return False
    started_ns = found.start_ticks * _TICK_NS - _asleep_ns()
    return found.runs and started_ns <= claimed_ns + _TICK_NS


def _asleep_ns() -> int:
    """Returns how long the machine has been suspended: CLOCK_BOOTTIME counts that time,
    CLOCK_MONOTONIC does not."""
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return max(0, boot_ns - time.monotonic_ns())


def _threads_of(spaces: set[int]) -> dict[tuple[int, int, int], str]:
    """Returns the threads of some PID namespaces, keyed by (namespace, pid, tid) in that
    namespace."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or _space_of(entry.name) not in spaces:
            continue
        space = _space_of(entry.name)
        with contextlib.suppress(OSError):
            for tid in os.listdir(f"/proc/{entry.name}/task"):
                at = f"{entry.name}/task/{tid}"
                numbers = _numbers_there(at)
                if numbers is not None:
                    pid, own_tid = numbers
                    found[space, pid, own_tid] = at
    return found


def _numbers_there(thread: str) -> tuple[int, int] | None:
    """Returns the pid and tid of a thread in its own PID namespace; None if it has ended."""
    fields = {}
    with contextlib.suppress(OSError), open(f"/proc/{thread}/status", encoding="latin-1") as status:
        for line in status:
            name, _, value = line.partition(":")
            fields[name] = value.split()
    if not fields.get("NStgid") or not fields.get("NSpid") or fields["State"][0] in "ZX":
        return None
    return int(fields["NStgid"][-1]), int(fields["NSpid"][-1])


_LOOK_S = 1.0
_END_WAIT_S = 20.0  # how long the file system of the kept trace may take at the end


class Lanes:
    """The lanes of a job segment, for the daemon that owns it. For one thread at a time."""

    def __init__(self, segment: str) -> None:
        with open(segment, "r+b") as stream:
            self.image = mmap.mmap(stream.fileno(), 0)
        self._base = ffi.from_buffer(self.image)
        job = ffi.cast("struct fan_job_header *", self._base)
        self.trace = ffi.cast("struct fan_trace *", self._base + job.trace_offset)
        self.lanes = ffi.cast("struct fan_lane *", self._base + self.trace.lanes_offset)
        self._census = Census()

    def live(self) -> list[int]:
        """Returns the lanes that have an owner."""
        return [
            number for number in range(1, self.trace.lane_count)
            if self.lanes[number].state == lib.FAN_LANE_LIVE
        ]  # fmt: skip

    def noted(self) -> int:
        """Returns the number of notes written so far to the lanes that have an owner."""
        return sum(int(self.lanes[number].head) for number in self.live())

    def ended(self) -> list[int]:
        """Returns the lanes whose owners have ended."""
        owners = {number: self._owner(number) for number in self.live()}
        ended = self._census.ended(owners.values())
        return [number for number, owner in owners.items() if owner in ended]

    def free(self, number: int) -> None:
        """Frees a lane for the next owner; the job's totals keep its counts."""
        counted = ffi.new("struct fan_counters *")
        check(lib.fan_trace_retire(self._base, len(self.image), number, counted))

    def _owner(self, number: int) -> Owner:
        lane = self.lanes[number]
        return Owner(
            int(lane.process), int(lane.pid_space), int(lane.pid), int(lane.tid),
            int(lane.start_ns + self.trace.base_ns),
        )  # fmt: skip


class LaneKeeper:
    """A thread that frees lanes of ended owners and collects notes until `stop`. kept: the trace to
    keep, or None."""

    def __init__(self, segment: str, kept: KeptTrace | None) -> None:
        self._lanes = Lanes(segment)
        self._kept = kept
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fanstore-lanes", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread. Waits until it has handled the remaining notes, but not longer than
        _END_WAIT_S: the file system of the trace may hang."""
        self._stopping.set()
        self._thread.join(_END_WAIT_S)

    def figures(self) -> TraceFigures | None:
        """Returns the state of the kept trace; None if no trace is kept."""
        if self._kept is None:
            return None
        hangs = self._stopping.is_set() and self._thread.is_alive()
        problem = f"{self._kept.path}: its file system hangs" if hangs else self._kept.problem
        return TraceFigures(path=self._kept.path, problem=problem)

    def _run(self) -> None:
        since_look_s = 0.0
        pause_s = _LOOK_S
        while not self._stopping.wait(pause_s):
            since_look_s += pause_s
            if self._kept is not None:
                pause_s = self._kept.take()
            if since_look_s >= _LOOK_S:
                since_look_s = 0.0
                self._look()
        self._look()
        if self._kept is not None:
            self._kept.finish()

    def _look(self) -> None:
        try:
            for number in self._lanes.ended():
                if self._kept is not None:
                    self._kept.take_last(number)
                self._lanes.free(number)
        except OSError as error:  # reading /proc failed: this process has no free descriptor
            print(f"fanstore: lanes: {os.strerror(error.errno or 0)}", file=sys.stderr, flush=True)
