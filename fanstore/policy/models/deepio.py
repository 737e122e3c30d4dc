"""DeepIO: Zhu et al., Entropy-aware I/O pipelining for large-scale deep learning (MASCOTS 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma

from fanstore.arrays import np
from fanstore.policy import checks


def cross_entropy_bits(sample_count: int) -> float:
    """Returns H(n) = sum of log2(j) / j for j = 1 to n: of two fully shuffled sequences of n."""
    j = np.arange(1, checks.sample_count(sample_count) + 1, dtype=np.float64)
    return float((np.log2(j) / j).sum())


def randomisation_level(sample_count: int, together: int) -> float:
    """Returns how random an order is in which each `together` samples stay together, as one
    element of the shuffle: H(n / together) / H(n), from 0 to 1; n / together rounded down.

    The paper's formula for an order through a memory that holds a part of the dataset does not
    give what it prints, and is left out. Raises ValueError for less than two samples.
    """
    checks.integer("sample_count", sample_count, 2)
    elements = sample_count // checks.integer("together", together, 1, sample_count)
    return cross_entropy_bits(elements) / cross_entropy_bits(sample_count)


def permutation_entropy(parts: Sequence[int]) -> float:
    """Returns how random an order is whose parts stand one behind the other, each fully shuffled
    in itself: log(product of k!) / log(n!) for parts of k samples, n in all; from 0 to 1.

    It is the entropy of all orders that can come, by that of all permutations. The paper's own
    measure (randomisation_level) does not apply: its samples stay together, not in their part.
    Raises ValueError for less than two samples.
    """
    counts = [checks.integer("parts", count, 0) for count in parts]
    checks.integer("samples", sum(counts), 2)
    return sum(lgamma(count + 1) for count in counts) / lgamma(sum(counts) + 1)
