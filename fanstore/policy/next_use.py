"""Computes how often each sample is read, and when next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def frequencies(sample_count: int, epochs: Iterable[Sequence[ArrayLike]]) -> NDArray[np.uint16]:
    """Returns how often each rank reads each sample in some epochs: uint16 (ranks x samples).

    epochs: for each epoch the reads of each rank, with the same number of ranks in each (some of
    the epochs that reads_of_ranks yields). Raises ValueError for no epochs at all, samples beyond
    sample_count, another number of ranks, and more than 65,535 reads of one sample.
    """
    checks.sample_count(sample_count)
    counts: NDArray[np.uint16] | None = None
    read = 0
    for ranks in epochs:
        if counts is None:
            counts = np.zeros((len(ranks), sample_count), dtype=np.uint16)
        if len(ranks) != len(counts):
            raise ValueError(f"an epoch has {len(ranks)} ranks; those before had {len(counts)}")
        for row, reads in zip(counts, ranks, strict=True):
            samples = checks.reads("what a rank reads", reads, sample_count)
            np.add.at(row, samples, np.uint16(1))
            read += len(samples)
    if counts is None:
        raise ValueError("epochs is empty; allowed is one or more")
    if int(counts.sum(dtype=np.uint64)) != read:
        raise ValueError("a sample is read more than 65535 times; allowed are fewer epochs")
    return counts


NEVER = 2**32 - 1  # the position of a read that never comes


def first_places(reads: ArrayLike, sample_count: int) -> NDArray[np.uint32]:
    """Returns the position in `reads` at which each sample first comes, or NEVER: uint32 (samples).
    For a permutation this is its inverse. Raises ValueError for samples beyond sample_count."""
    samples = checks.reads("reads", reads, checks.sample_count(sample_count))
    places = np.full(sample_count, NEVER, dtype=np.uint32)
    # For equal samples NumPy keeps the last value assigned, which is the first place.
    places[samples[::-1]] = np.arange(len(samples) - 1, -1, -1, dtype=np.uint32)
    return places
