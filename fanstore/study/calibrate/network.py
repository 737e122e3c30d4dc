"""Measures the rate between two ranks, by the size of messages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from fanstore.errors import FanstoreError
from fanstore.startup import MpiWorld
from fanstore.study.calibrate.together import Bench, Measured, Repeats

SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20)
FETCH_BYTES = 1 << 20  # the size of fetches between daemons
_MOST_MESSAGES = 2000
_OUTSTANDING = 4
_TAG, _ACK_TAG = 11, 12
_LIMIT_S = 60.0
_REPORT_EVERY_S = 0.1


def network_rates(budget_bytes: int, repeats: int, bench: Bench, hosts: Sequence[str]) -> Measured:
    """Measures how fast rank 0 receives messages from the first rank on another host, or from rank
    1 if there is none. hosts: of each rank. Every rank calls this."""
    world = bench.world
    assert isinstance(world, MpiWorld)
    sender = next((rank for rank, host in enumerate(hosts) if host != hosts[0]), 1)
    points = {}
    for size in (each for each in SIZES if each <= max(FETCH_BYTES, budget_bytes)):
        count = max(_OUTSTANDING, min(_MOST_MESSAGES, budget_bytes // size))
        seconds = []
        for _ in range(repeats):
            world.gather_all(None)
            if world.rank == 0:
                seconds.append(_receive(world, bench, sender, size, count))
            elif world.rank == sender:
                _send(world, bench, size, count)
        points[size] = Repeats(size * count, tuple(seconds))
    world.gather_all(None)
    notes = () if hosts[sender] != hosts[0] else (
        "WORTHLESS: all ranks were on one node: this is the rate of its memory",
    )  # fmt: skip
    return Measured(points, notes)


def _receive(world: MpiWorld, bench: Bench, sender: int, size: int, count: int) -> float:
    """Receives messages, several of them under way at a time. Returns the seconds that this
    took."""
    buffers = [bytearray(size) for _ in range(_OUTSTANDING)]
    start_s = time.perf_counter()
    _wait(world.isend(b"!", sender, _ACK_TAG), bench)
    waiting = [world.irecv(buffer, sender, _TAG) for buffer in buffers]
    for number in range(count):
        place = number % _OUTSTANDING
        _wait(waiting[place], bench)
        if number + _OUTSTANDING < count:
            waiting[place] = world.irecv(buffers[place], sender, _TAG)
    return time.perf_counter() - start_s


def _send(world: MpiWorld, bench: Bench, size: int, count: int) -> None:
    buffer = bytes(size)
    _wait(world.irecv(bytearray(1), 0, _ACK_TAG), bench)
    waiting: list[Any] = []
    for _ in range(count):
        if len(waiting) == _OUTSTANDING:
            _wait(waiting.pop(0), bench)
        waiting.append(world.isend(buffer, 0, _TAG))
    for request in waiting:
        _wait(request, bench)


def _wait(request: Any, bench: Bench) -> None:
    """Waits without sleeping, because the wait is timed; reports to the other ranks meanwhile.
    Raises FanstoreError if nothing comes."""
    start_s = told_s = time.monotonic()
    while not request.Test():
        now_s = time.monotonic()
        if now_s - told_s > _REPORT_EVERY_S:
            told_s = now_s
            bench.report()
        if now_s - start_s > _LIMIT_S:
            raise FanstoreError(f"no message came over the network for {_LIMIT_S:g} s")
