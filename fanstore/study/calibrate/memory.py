"""Rates of copying in memory, by threads."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.staging.memory import available_bytes
from fanstore.study.calibrate.repeats import Measured, Repeats
from fanstore.study.calibrate.storage import COUNTS
from fanstore.study.calibrate.together import Bench

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PIECE_BYTES = 1 << 20
_ROUNDS = 8  # so that it lasts


def copy_rates(budget_bytes: int, repeats: int, bench: Bench) -> Measured:
    """Measures how fast threads copy from one half of `budget_bytes` (of 16 MiB at least) to the
    other: bytes copied."""
    of_each = max(1, budget_bytes // 2 // _PIECE_BYTES // COUNTS[-1]) * _PIECE_BYTES
    half = of_each * COUNTS[-1]
    source, target = np.ones(half, dtype=np.uint8), np.ones(half, dtype=np.uint8)  # has its pages
    points = {}
    for count in COUNTS:
        parts = list(zip(np.split(source, count), np.split(target, count), strict=True))
        works = [partial(_copy, *part, bench) for part in parts]
        points[count] = Repeats(
            _ROUNDS * half, tuple(bench.together(works) for _ in range(repeats))
        )
    return Measured(points)


def _copy(source: NDArray[np.uint8], target: NDArray[np.uint8], bench: Bench) -> None:
    for _ in range(_ROUNDS):
        for at in range(0, len(source), _PIECE_BYTES):
            bench.check()
            np.copyto(target[at : at + _PIECE_BYTES], source[at : at + _PIECE_BYTES])


def free_bytes() -> int:
    """Returns how much memory this node has for a job: what is available, and what the control
    group allows."""
    with open("/proc/meminfo", encoding="ascii") as stream:
        table = dict(line.split(":", 1) for line in stream)
    amount = int(table["MemAvailable"].split()[0]) << 10
    allowed = available_bytes()
    return amount if allowed is None else min(amount, allowed)


def processors() -> int:
    """Returns on how many processors this process may run."""
    return len(os.sched_getaffinity(0))
