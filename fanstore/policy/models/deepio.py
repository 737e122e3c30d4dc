"""DeepIO: Zhu et al., Entropy-aware I/O pipelining for large-scale deep learning (MASCOTS 2018)."""

from __future__ import annotations

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
