"""Heartbeats: while they wait, the ranks of a job tell each other that they are alive, report their
progress, and announce the failure of a rank.

They go along a tree in which each rank has up to `FAN_OUT` children, which limits the messages of a
rank however many ranks there are. Each rank watches its parent and its children. A rank reports to
its neighbours the summed progress of itself and all ranks below it; a failure goes to all ranks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FAN_OUT = 16
_BEAT_TAG = 1
_BEAT_S = 0.5

Figures = tuple[int, int]  # bytes that are done, and in all
Failure = tuple[int, str, bool]  # the rank that failed, a message, whether the rank sent it itself


def neighbours(rank: int, world_size: int) -> list[int]:
    """Returns the ranks that `rank` sends to and watches: its parent, if it has one, then its
    children."""
    parent = [(rank - 1) // FAN_OUT] if rank > 0 else []
    first = rank * FAN_OUT + 1
    return parent + list(range(first, min(first + FAN_OUT, world_size)))


class Beats:
    """The heartbeats of one rank, over a communicator that nothing else uses."""

    def __init__(
        self, comm: Any, any_source: int, new_status: Callable[[], Any], patience_s: float
    ) -> None:
        """comm, any_source, new_status: from mpi4py. patience_s: how long a rank may be silent."""
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
        """Stores this rank's figures; returns the sum of them and of those of all ranks below."""
        self._own = own
        done, total = zip(own, *self._below.values(), strict=True)
        return sum(done), sum(total)

    def beat(self) -> None:
        """Receives messages, sends a heartbeat twice a second, and checks whether a watched rank
        has been silent for too long; if so, puts that into `failure`."""
        self.hear()
        now_s = time.monotonic()
        if now_s - self._last_s >= _BEAT_S:
            if now_s - self._last_s > _BEAT_S + self.patience_s / 2:
                # This rank itself was stopped: it does not know who was silent meanwhile.
                self._heard_s = dict.fromkeys(self._neighbours, now_s)
            self._last_s = now_s
            self.send()
        for rank, heard_s in self._heard_s.items():
            if now_s - heard_s > self.patience_s and self.failure is None:
                self.fail((rank, f"not heard of for {self.patience_s:g} s", False))

    def fail(self, failure: Failure) -> None:
        """Stores a failure and sends it to the neighbours, unless there was one before."""
        if self.failure is None:
            self.failure = failure
            self.send()

    def send(self) -> None:
        """Sends the summed figures and the failure, if any, to the neighbours."""
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
