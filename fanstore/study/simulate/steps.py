"""How fast the steps of a job go: how many are slow, when the job has warmed up, and how long
staging takes before it. A step is one batch on every rank. It lasts from the end of the step before
to its own end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.plan.machine import System

if TYPE_CHECKING:
    from numpy.typing import NDArray


SLOW = 1.5  # a step is slow that takes longer than this many times its computing
WARM = 0.95  # a job is warm once it reads at this part of the rate of its last epoch
_SPANS = 100  # an epoch is looked at in so many parts


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


class Steps:
    """Counts the steps of one policy, epoch by epoch. It keeps a hundred numbers of each epoch."""

    def __init__(self, start_s: float) -> None:
        """start_s: when the first step begins, in seconds from the start of the job."""
        self._count = self._slow = 0
        self._last_rate = 0.0
        self._starts = [np.zeros(0, dtype=np.int64)]  # the first step of each part of an epoch
        self._times_s = [np.zeros(0)]  # how long each part takes
        self._rates = [np.zeros(0)]  # at how many bytes/s each part is read
        self._start_s = start_s

    def add(
        self,
        step_s: NDArray[np.float64],
        compute_s: NDArray[np.float64],
        step_bytes: NDArray[np.int64],
    ) -> None:
        """Adds an epoch, given for each of its steps: how long it takes, how long the slowest rank
        computes in it, and how many bytes all ranks read."""
        self._slow += int(np.count_nonzero(step_s > SLOW * compute_s))
        starts = np.unique(np.linspace(0, len(step_s), _SPANS, endpoint=False).astype(np.int64))
        times_s = np.add.reduceat(step_s, starts)
        self._starts.append(self._count + starts)
        self._times_s.append(times_s)
        self._rates.append(_rates(np.add.reduceat(step_bytes, starts), times_s))
        self._last_rate = float(_rates(step_bytes.sum(), step_s.sum()))
        self._count += len(step_s)

    def figures(self) -> StepFigures:
        """Returns the figures of all epochs that were added, one at least."""
        starts, times_s = np.concatenate(self._starts), np.concatenate(self._times_s)
        warm = np.concatenate(self._rates) >= WARM * self._last_rate
        first = int(warm.argmax())  # the last epoch has such a part: its rate is a mean of parts
        before_s = float(times_s[:first].sum())
        return StepFigures(self._count, self._slow, int(starts[first]), self._start_s + before_s)


def _rates(amount_bytes: NDArray[np.int64], time_s: NDArray[np.float64]) -> NDArray[np.float64]:
    rates: NDArray[np.float64] = amount_bytes / np.maximum(time_s, np.finfo(np.float64).tiny)
    return rates


def staging_s(system: System, kept_bytes: NDArray[np.int64]) -> float:
    """Returns the seconds that the slowest node takes to load its files from shared storage.

    kept_bytes: how much each node keeps in each storage class (nodes x classes). All nodes load at
    once, each as one rank does; a node fills one class after the other, and none faster than it can
    be written.
    """
    shared = system.shared
    incoming = shared.share_bytes_per_s(system.nodes) * shared.readers_per_rank
    rates = [min(incoming, float(each.write(each.threads))) for each in system.classes]
    return float((kept_bytes / np.array(rates)).sum(axis=1).max())
