"""Lobster: Liu, Nicolae and Li, Lobster: load balance-aware I/O for distributed DNN training
(ICPP 2022): times of loading and preparing a batch, and how many threads load for each GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.curve import Curve

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Source:
    """The part of a batch that is loaded from one place. load_bytes: its size; threads: how many
    threads load it; rate: bytes per second of one thread, by the number of threads."""

    load_bytes: float
    threads: int
    rate: Curve

    def load_s(self) -> float:
        """Returns the seconds that loading takes, infinity if no thread loads."""
        load_bytes = checks.amount("load_bytes", self.load_bytes)
        threads = checks.integer("threads", self.threads, 0)
        if not load_bytes:
            return 0.0
        return load_bytes / (threads * float(self.rate(threads))) if threads else np.inf


def load_s(sources: Sequence[Source]) -> float:
    """Returns the seconds to load a batch of one GPU, T_L: from the local cache, remote caches and
    the shared file system, one after the other (equation 1)."""
    return sum(source.load_s() for source in sources)


class Preprocessing:
    """The time to prepare samples, as a function of the number of threads that is linear between
    measured points. Each size of samples that was measured has a function of its own."""

    def __init__(self, models: dict[int, Curve]) -> None:
        """models: by the size of samples in bytes, seconds by the number of threads."""
        if not models:
            raise ValueError("models is empty; allowed is one or more")
        self._sizes = np.array(sorted(models), dtype=np.float64)
        self._curves = [models[size] for size in sorted(models)]

    def batch_s(self, sizes_bytes: NDArray[np.float64], threads: int) -> float:
        """Returns the time for all samples of a batch, T_P, each by the model of the nearest
        size (of two that are equally near, the smaller)."""
        checks.integer("threads", threads, 1)
        middles = (self._sizes[1:] + self._sizes[:-1]) / 2
        each_s = np.array([float(curve(threads)) for curve in self._curves])
        return float(each_s[np.searchsorted(middles, sizes_bytes, side="left")].sum())


def proportional_threads(queued: Sequence[int], threads_max: int) -> list[int]:
    """Returns how many loading threads each GPU gets: all of threads_max, in proportion to the
    requests in its queue, the largest remainders rounded up; 0 each if nothing is queued."""
    total = sum(checks.integer("queued", count, 0) for count in queued)
    checks.integer("threads_max", threads_max, 1)
    if not total:
        return [0] * len(queued)
    threads = [count * threads_max // total for count in queued]
    by_remainder = sorted(range(len(queued)), key=lambda gpu: -(queued[gpu] * threads_max % total))
    for gpu in by_remainder[: threads_max - sum(threads)]:
        threads[gpu] += 1
    return threads


def balanced_threads(
    late_s: Callable[[int, int], float],
    initial: Sequence[int],
    threads_max: int,
    threshold_s: float,
) -> list[int]:
    """Returns how many loading threads each GPU should have (Algorithm 1): if loading and preparing
    differ from training by threshold_s or more, a binary search over 0 to threads_max.

    late_s(gpu, threads): T_L + T_P - T_train of its next batch, falling with the threads. initial:
    of each GPU, from proportional_threads. As in the paper GPUs are searched one by one, so that
    together they may ask for more than threads_max. Corrected here: the better of two is the one
    with the smaller absolute difference, and a GPU that is early gets fewer threads, not more. No
    number of threads is tried twice, so that the search needs no list of tries to end.
    """
    checks.integer("threads_max", threads_max, 1)
    checks.rate("threshold_s", threshold_s)
    return [
        _searched(partial(late_s, gpu), start, threads_max, threshold_s)
        for gpu, start in enumerate(initial)
    ]


def _searched(
    late_s: Callable[[int], float], start: int, threads_max: int, threshold_s: float
) -> int:
    threads = best = checks.integer("initial", start, 0, threads_max)
    late = least = late_s(threads)
    low, high = 0, threads_max
    while abs(late) >= threshold_s:
        low, high = (low, threads - 1) if late < 0 else (threads + 1, high)
        if low > high:
            break
        threads = (low + high) // 2
        late = late_s(threads)
        if abs(late) < abs(least):
            best, least = threads, late
    return best
