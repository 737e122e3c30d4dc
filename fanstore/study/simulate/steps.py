"""Computes how fast a job's steps are. A step is one batch on every rank. It lasts from the end of
the step before to its own end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.study.machine import System

if TYPE_CHECKING:
    from numpy.typing import NDArray

SLOW = 1.5  # a step is slow if it takes longer than this many times its computing
WARM = 0.95  # a job is warm once it reads at this part of its last epoch's rate
_SPANS = 100  # into how many parts an epoch is divided


@dataclass(frozen=True)
class StepFigures:
    """The steps of a whole job.

    slow: the number of steps that take longer than SLOW times what the slowest rank computes.
    warm_up, warm_up_s: the number of steps, and the seconds from the start of the job, before the
    first hundredth of an epoch in which bytes are read at WARM of the last epoch's rate or faster.
    """

    count: int
    slow: int
    warm_up: int
    warm_up_s: float


class StepCounter:
    """Counts the steps of one policy, epoch by epoch. Stores a hundred numbers for each epoch."""

    def __init__(self, start_s: float) -> None:
        """start_s: when the first step begins, in seconds from the start of the job."""
        self._count = self._slow = 0
        self._last_rate = 0.0
        self._starts = [np.zeros(0, dtype=np.int64)]  # the first step of each part of an epoch
        self._times_s = [np.zeros(0)]  # how long each part takes
        self._rates = [np.zeros(0)]  # the rate of each part, in bytes/s
        self._start_s = start_s

    def add(
        self,
        step_s: NDArray[np.float64],
        compute_s: NDArray[np.float64],
        step_bytes: NDArray[np.int64],
    ) -> None:
        """Adds an epoch. Each array has an entry for each step: how long it takes, how long the
        slowest rank computes in it, and how many bytes all ranks read."""
        self._slow += int(np.count_nonzero(step_s > SLOW * compute_s))
        starts = np.unique(np.linspace(0, len(step_s), _SPANS, endpoint=False).astype(np.int64))
        times_s = np.add.reduceat(step_s, starts)
        self._starts.append(self._count + starts)
        self._times_s.append(times_s)
        self._rates.append(_rates(np.add.reduceat(step_bytes, starts), times_s))
        self._last_rate = float(_rates(step_bytes.sum(), step_s.sum()))
        self._count += len(step_s)

    def figures(self) -> StepFigures:
        """Returns the figures of all epochs that were added, at least one."""
        starts, times_s = np.concatenate(self._starts), np.concatenate(self._times_s)
        warm = np.concatenate(self._rates) >= WARM * self._last_rate
        first = int(warm.argmax())  # always found: the last epoch's rate is a mean of its parts
        before_s = float(times_s[:first].sum())
        return StepFigures(self._count, self._slow, int(starts[first]), self._start_s + before_s)


def _rates(amount_bytes: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    rates: NDArray[np.float64] = amount_bytes / np.maximum(time_s, np.finfo(np.float64).tiny)
    return rates


def staging_s(system: System, kept_bytes: NDArray[np.int64]) -> float:
    """Returns how many seconds the slowest node takes to load its files from shared storage.

    kept_bytes: how much each node keeps in each storage class (nodes x classes). All nodes load at
    once, each as fast as one rank; a node fills one class after the other, at most as fast as it
    can be written."""
    shared = system.shared
    incoming = shared.share_bytes_per_s(system.nodes) * shared.readers_per_rank
    rates = [min(incoming, float(each.write(each.threads))) for each in system.classes]
    return float((kept_bytes / np.array(rates)).sum(axis=1).max())


@dataclass(frozen=True)
class Batches:
    """The batches of an epoch. Matrices are ranks x batches, times in seconds.

    load_s: how long each batch takes to load. span_s: the time from the start of its loading to its
    end, if it waits for nothing but its own loading. compute_s: how long the slowest rank computes
    with each batch (batches). batch_bytes: the room of each in the staging buffer.
    """

    load_s: NDArray[np.float64]
    span_s: NDArray[np.float64]
    compute_s: NDArray[np.float64]
    batch_bytes: NDArray[np.int64]


class Pipeline:
    """The times until which each rank of a job has loaded and computed. Ranks load ahead into a
    staging buffer, also into the next epoch (NoPFS section 4).

    A sample is ready when it and those before it were loaded, and a rank begins with it when the
    one before is done. All ranks begin a batch together. Beyond the paper, the staging buffer is
    limited: a batch is loaded when it fits beside the batches that are not yet done.
    """

    def __init__(self, ranks: int, capacity_bytes: int, start_s: float) -> None:
        """capacity_bytes: of the staging buffer of a rank. start_s: when loading begins."""
        self._capacity = capacity_bytes
        self._loaded_s = np.full(ranks, start_s)  # until when each rank is loading
        # When the batches that still matter end, and the batch before them.
        self._ends_s = np.array([start_s])
        # Total bytes up to each of these batches.
        self._upto_bytes = np.zeros((ranks, 1), dtype=np.int64)
        self.staged_max_bytes = 0

    @property
    def end_s(self) -> float:
        """The time in seconds when the last batch is done, from the start of the job."""
        return float(self._ends_s[-1])

    def advance(self, batches: Batches) -> NDArray[np.float64]:
        """Adds an epoch, in which no batch may exceed the capacity. Returns the time in seconds
        when each batch ends on all ranks (batches)."""
        known = len(self._ends_s)
        upto = self._upto_bytes[:, -1:] + np.cumsum(batches.batch_bytes, axis=1)
        self._upto_bytes = np.concatenate((self._upto_bytes, upto), axis=1)
        needed = self._needed(known)
        needed_by_all = needed.max(axis=0)
        self._ends_s = np.concatenate((self._ends_s, np.empty(upto.shape[1])))
        done = known
        while done < len(self._ends_s):
            # Handles all following batches that depend only on known ends.
            end = known + int(np.searchsorted(needed_by_all, done - 1, side="right"))
            part = slice(done - known, end - known)
            self._stretch(batches, part, self._ends_s[needed[:, part]], slice(done, end))
            done = end
        ends_s = self._ends_s[known:]
        self._forget()
        return ends_s

    def _needed(self, known: int) -> NDArray[np.intp]:
        """Returns the index in _ends_s of the last batch that must be done before each new batch
        fits."""
        limits = self._upto_bytes[:, known:] - self._capacity
        rows = zip(self._upto_bytes, limits, strict=True)
        return np.stack([np.searchsorted(row, limit, side="left") for row, limit in rows])

    def _stretch(
        self, batches: Batches, part: slice, free_s: NDArray[np.float64], places: slice
    ) -> None:
        load_s = batches.load_s[:, part]
        free_s[:, 0] = np.maximum(free_s[:, 0], self._loaded_s)
        loaded_s = np.cumsum(load_s, axis=1)
        loaded_s += np.maximum.accumulate(free_s - (loaded_s - load_s), axis=1)
        no_sooner = (loaded_s - load_s + batches.span_s[:, part]).max(axis=0)
        compute_s = batches.compute_s[part]
        no_sooner[0] = max(no_sooner[0], self._ends_s[places.start - 1] + compute_s[0])
        together = np.cumsum(compute_s)
        self._ends_s[places] = together + np.maximum.accumulate(no_sooner - together)
        self._loaded_s = loaded_s[:, -1]
        self._count_staged(loaded_s, places)

    def _count_staged(self, loaded_s: NDArray[np.float64], places: slice) -> None:
        known_s = self._ends_s[: places.stop]
        for upto, times_s in zip(self._upto_bytes, loaded_s, strict=True):
            done = np.maximum(np.searchsorted(known_s, times_s, side="right") - 1, 0)
            staged = int((upto[places] - upto[done]).max())
            self.staged_max_bytes = max(self.staged_max_bytes, staged)

    def _forget(self) -> None:
        """Drops the batches on which no later one can depend."""
        left = self._upto_bytes[:, -1:] - self._upto_bytes
        first = int((left > self._capacity).all(axis=0).sum())
        self._ends_s = self._ends_s[first:]
        self._upto_bytes = self._upto_bytes[:, first:]
