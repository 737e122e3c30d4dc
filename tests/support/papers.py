"""Formulas of the papers, with which replays, orders and tests/simulate/papers.md are compared."""

from __future__ import annotations

from fractions import Fraction
from math import comb, expm1, lgamma, log, log1p
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEPS = 100_000


def minio_misses(cached: float) -> float:
    """The miss rate of a cache that never replaces its content, and holds a fraction `cached`."""
    return 1 - cached


def lru_misses(cached: float) -> float:
    """The steady miss rate of a cache that replaces the least recently used, if every epoch is
    another permutation: a - a ln a, with a the fraction that is not cached."""
    uncached = 1 - cached
    return uncached - uncached * log(uncached) if uncached else 0.0


def random_misses(cached: float) -> float:
    """The steady miss rate of a cache that replaces at random: 1 + f ln(1 - f + f exp(-1 / f)),
    with f the fraction that is cached.

    An epoch begins with a hit rate of f, which falls later on. A rate that is the same all through
    the epoch, m = 1 - ((1 - exp(-m / f)) / (m / f))**2, is up to 0.2 points too high.
    """
    if cached in (0, 1):
        return 1 - cached
    return 1 + cached * log1p(cached * expm1(-1 / cached))


def reads_more_than(times: int, epochs: int, workers: int) -> float:
    """The probability that a worker reads a given sample more than so many times (NoPFS, 3.1): each
    epoch it does with probability 1 / workers, independently (binomial)."""
    ways = sum(
        comb(epochs, n) * (workers - 1) ** (epochs - n) for n in range(times + 1, epochs + 1)
    )
    return float(Fraction(ways, workers**epochs))


def often_read_samples(sample_count: int, times: int, epochs: int, workers: int) -> float:
    """How many samples one worker is expected to read more than so many times."""
    return sample_count * reads_more_than(times, epochs, workers)


def _cross_entropy_bits(sample_count: int) -> float:
    """H(n) = sum of log2(j) / j for j = 1 to n, of two fully shuffled sequences of n."""
    j = np.arange(1, sample_count + 1, dtype=np.float64)
    return float((np.log2(j) / j).sum())


def randomisation_level(sample_count: int, together: int) -> float:
    """How random an order is in which each `together` samples stay together, as one element of the
    shuffle (DeepIO): H(n / together) / H(n), from 0 to 1; n / together rounded down.

    The paper's formula for an order through a memory that holds a part of the dataset does not give
    the values that the paper prints, and is left out.
    """
    return _cross_entropy_bits(sample_count // together) / _cross_entropy_bits(sample_count)


def opportunistic_level(sample_count: int, held: int) -> float:
    """How random the opportunistic order is: the entropy of all orders that can come, divided by
    that of all permutations, log2(n!), from 0 to 1. The paper's formula for it cannot be used.

    held: samples that are in memory when the epoch begins, as many as it holds. The next sample is
    any of those in memory, and one of the others takes its place while any are left. The samples
    held at first come in any order, and so do the others. How the two mix is computed for many
    samples: after t times as many reads as memory holds, a part exp(-t) of it was there at first.
    """
    if not held:
        return 1.0
    times = np.linspace(0, (sample_count - held) / held, _STEPS + 1)
    choices = _choice_nats(np.exp(-times))
    mixed = ((choices[1:] + choices[:-1]) / 2 * np.diff(times)).sum() + choices[-1]
    left = sample_count - held
    nats = lgamma(held + 1) + lgamma(left + 1) + held * float(mixed)
    return min(1.0, nats / lgamma(sample_count + 1))


def _choice_nats(part: NDArray[np.float64]) -> NDArray[np.float64]:
    """The entropy of a choice between two, one of which has these chances."""
    found = np.zeros_like(part)
    for chance in (part, 1 - part):
        np.subtract(found, chance * np.log(chance, where=chance > 0, out=np.zeros_like(chance)),
                    out=found)  # fmt: skip
    return found
