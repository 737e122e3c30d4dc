"""DeepIO: Zhu et al., Entropy-aware I/O pipelining for large-scale deep learning (MASCOTS 2018)."""

from __future__ import annotations

from math import lgamma
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STEPS = 100_000


def cross_entropy_bits(sample_count: int) -> float:
    """Returns H(n) = sum of log2(j) / j for j = 1 to n, of two fully shuffled sequences of n."""
    j = np.arange(1, checks.sample_count(sample_count) + 1, dtype=np.float64)
    return float((np.log2(j) / j).sum())


def randomisation_level(sample_count: int, together: int) -> float:
    """Returns how random an order is in which each `together` samples stay together, as one element
    of the shuffle: H(n / together) / H(n), from 0 to 1; n / together rounded down.

    The paper's formula for an order through a memory that holds a part of the dataset does not give
    the values that the paper prints, and is left out. Raises ValueError for less than two samples.
    """
    checks.integer("sample_count", sample_count, 2)
    elements = sample_count // checks.integer("together", together, 1, sample_count)
    return cross_entropy_bits(elements) / cross_entropy_bits(sample_count)


def opportunistic_level(sample_count: int, held: int) -> float:
    """Returns how random the opportunistic order is: the entropy of all orders that can come,
    divided by that of all permutations, log2(n!), from 0 to 1. The paper's formula for it cannot be
    used.

    held: samples that are in memory when the epoch begins, as many as it holds. The next sample is
    any of those in memory, and one of the others takes its place while any are left. The samples
    held at first come in any order, and so do the others. How the two mix is computed for many
    samples: after t times as many reads as memory holds, a part exp(-t) of it was there at first.
    Raises ValueError for less than two samples.
    """
    checks.integer("sample_count", sample_count, 2)
    if not checks.integer("held", held, 0, sample_count):
        return 1.0
    times = np.linspace(0, (sample_count - held) / held, _STEPS + 1)
    part = np.exp(-times)
    choices = _choice_nats(part)
    mixed = ((choices[1:] + choices[:-1]) / 2 * np.diff(times)).sum() + choices[-1]
    left = sample_count - held
    nats = lgamma(held + 1) + lgamma(left + 1) + held * float(mixed)
    return min(1.0, nats / lgamma(sample_count + 1))


def _choice_nats(part: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the entropy of a choice between two, one of which has these chances."""
    found = np.zeros_like(part)
    for chance in (part, 1 - part):
        np.subtract(found, chance * np.log(chance, where=chance > 0, out=np.zeros_like(chance)),
                    out=found)  # fmt: skip
    return found
