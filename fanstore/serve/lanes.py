"""The daemon's side of the access trace: a thread that gives lanes free whose owners have ended,
and moves notes into the trace that is kept, where one is asked for."""

from __future__ import annotations

import mmap
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from fanstore._native import check, ffi, lib
from fanstore.serve.lane_owners import Census, Owner

if TYPE_CHECKING:
    from fanstore.serve.trace_file import KeptTrace

_LOOK_S = 1.0
_END_WAIT_S = 20.0  # for the file system of a trace that is kept


class Lanes:
    """The lanes of a job segment, for the daemon that writes it. Used by one thread at a time."""

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
        """Returns how many notes those lanes have had."""
        return sum(int(self.lanes[number].head) for number in self.live())

    def ended(self) -> list[int]:
        """Returns the lanes whose owners have ended."""
        owners = {number: self._owner(number) for number in self.live()}
        ended = self._census.ended(owners.values())
        return [number for number, owner in owners.items() if owner in ended]

    def free(self, number: int) -> None:
        """Gives a lane free; what was counted there stays counted."""
        counted = ffi.new("struct fan_counters *")
        check(lib.fan_trace_retire(self._base, len(self.image), number, counted))

    def _owner(self, number: int) -> Owner:
        lane = self.lanes[number]
        return Owner(
            int(lane.process), int(lane.pid_space), int(lane.pid), int(lane.tid),
            int(lane.start_ns + self.trace.base_ns),
        )  # fmt: skip


class LaneKeeper:
    """A thread that looks after the lanes until `stop`. kept: the trace that is kept, or None."""

    def __init__(self, segment: str, kept: KeptTrace | None) -> None:
        self._lanes = Lanes(segment)
        self._kept = kept
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fanstore-lanes", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread when it has done all that is left, or hangs in the file system of the
        trace."""
        self._stopping.set()
        self._thread.join(_END_WAIT_S)

    def figures(self) -> dict[str, Any]:
        """What is kept of the trace: `path`, and why no more is, `problem`; empty where nothing
        is."""
        if self._kept is None:
            return {}
        hangs = self._stopping.is_set() and self._thread.is_alive()
        problem = f"{self._kept.path}: its file system hangs" if hangs else self._kept.problem
        return {"path": self._kept.path, "problem": problem}

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
        except OSError as error:  # of /proc: there are no descriptors left
            print(f"fanstore: lanes: {os.strerror(error.errno or 0)}", file=sys.stderr, flush=True)
