"""Heartbeats between the ranks of a job. While ranks wait, they tell each other that they are
alive, report their progress, and announce the failure of a rank.

Heartbeats go along a tree in which each rank has up to `FAN_OUT` children, so that a rank sends few
messages however many ranks there are. Each rank watches its parent and its children. It reports to
its neighbours the summed progress of itself and all ranks below it; a failure goes to all ranks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FAN_OUT = 16
_BEAT_TAG = 1
_BEAT_S = 0.5

Figures = tuple[int, int]  # bytes done, and bytes in all
# The rank that failed, the message, whether the rank sent that itself.
Failure = tuple[int, str, bool]


def neighbours(rank: int, world_size: int) -> list[int]:
    """Returns the ranks with which `rank` exchanges heartbeats: its parent, if it has one, then its
    children."""
    parent = [(rank - 1) // FAN_OUT] if rank > 0 else []
    first = rank * FAN_OUT + 1
    return parent + list(range(first, min(first + FAN_OUT, world_size)))


class Beats:
    """The heartbeats of one rank. Nothing else may use their communicator."""

    def __init__(
        self, comm: Any, any_source: int, new_status: Callable[[], Any], patience_s: float
    ) -> None:
        """comm, any_source, new_status: from mpi4py. patience_s: how long a neighbour may be
        silent."""
        self.patience_s = patience_s
        self.failure: Failure | None = None
        self._comm, self._any_source, self._new_status = comm, any_source, new_status
        self._rank = comm.rank
        self._neighbours = neighbours(self._rank, comm.size)
        self._parent = self._neighbours[0] if self._rank > 0 else None
        self._heard_s = dict.fromkeys(self._neighbours, time.monotonic())
        self._below: dict[int, Figures] = {}
        self._own: Figures = (0, 0)
        self._last_s = 0.0
        self._sending: list[Any] = []

    def report(self, own: Figures) -> Figures:
        """Stores this rank's figures. Returns the sum of its own and of those of all ranks below
        it."""
        self._own = own
        done, total = zip(own, *self._below.values(), strict=True)
        return sum(done), sum(total)

    def beat(self) -> None:
        """Receives messages, and sends a heartbeat twice a second. If a neighbour has been silent
        for too long, sets `failure`."""
        self.hear()
        now_s = time.monotonic()
        if now_s - self._last_s >= _BEAT_S:
            if now_s - self._last_s > _BEAT_S + self.patience_s / 2:
                # This rank itself was stopped, so it cannot know which neighbours were silent.
                self._heard_s = dict.fromkeys(self._neighbours, now_s)
            self._last_s = now_s
            self.send()
        for rank, heard_s in self._heard_s.items():
            if now_s - heard_s > self.patience_s and self.failure is None:
                self.fail((rank, f"not heard of for {self.patience_s:g} s", False))

    def fail(self, failure: Failure) -> None:
        """Stores a failure and sends it to the neighbours, unless one was stored before."""
        if self.failure is None:
            self.failure = failure
            self.send()

    def send(self) -> None:
        """Sends the summed figures to the neighbours, and the failure if there is one."""
        self._sending = [request for request in self._sending if not request.Test()]
        message = (self.report(self._own), self.failure)
        self._sending += [self._comm.isend(message, rank, _BEAT_TAG) for rank in self._neighbours]

    def hear(self) -> None:
        """Receives all messages that have arrived."""
        status = self._new_status()
        while self._comm.iprobe(self._any_source, _BEAT_TAG, status):
            source = status.Get_source()
            figures, failure = self._comm.recv(source=source, tag=_BEAT_TAG)
            self._heard_s[source] = time.monotonic()
            if source != self._parent:
                self._below[source] = figures
            if failure is not None:
                self.fail(failure)
