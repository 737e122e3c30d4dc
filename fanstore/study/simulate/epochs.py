"""Arranges the reads of each rank in each epoch as matrices of whole batches (ranks x reads)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.errors import UsageError
from fanstore.policy.orders.registry import reads_of_ranks
from fanstore.study.simulate.scenario import Scenario

if TYPE_CHECKING:
    from numpy.typing import NDArray


def reads_of_epochs(scenario: Scenario, sample_count: int) -> Iterator[list[NDArray[Any]]]:
    """Yields, for each epoch of the job, the reads of each rank. Raises UsageError for parameters
    that the order does not accept."""
    job = scenario.job
    try:
        coming = reads_of_ranks(
            job.order, sample_count, scenario.system.ranks, **job.order_parameters
        )
        yield from islice(coming, job.epochs)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{job.order_source}: {error}") from None


@dataclass(frozen=True)
class Epoch:
    """One epoch of a job, cut into batches. All matrices are ranks x reads.

    number: counts epochs from 0. reads: the number of each sample that is read, in whole batches; a
    batch that is not full is filled with the empty sample, whose number follows the last one.
    sizes_bytes: the size of each sample that is read. left_s: the seconds that a rank computes from
    the start of each sample to the end of its batch.
    """

    number: int
    reads: NDArray[np.intp]
    sizes_bytes: NDArray[np.float64]
    left_s: NDArray[np.float64]
    batch_size: int

    @property
    def batches(self) -> int:
        """The number of batches of a rank, the same for all."""
        return int(self.reads.shape[1]) // self.batch_size

    @cached_property
    def compute_s(self) -> NDArray[np.float64]:
        """The seconds that the slowest rank computes with each batch (batches)."""
        longest: NDArray[np.float64] = self.left_s[:, :: self.batch_size].max(axis=0)
        return longest

    @cached_property
    def batch_bytes(self) -> NDArray[np.int64]:
        """The bytes of each batch of each rank (ranks x batches)."""
        rows = self.sizes_bytes.reshape(len(self.reads), self.batches, self.batch_size)
        totals: NDArray[np.int64] = rows.sum(axis=2).astype(np.int64)
        return totals


def padded(reads: list[NDArray[Any]], batch_size: int, nothing: int) -> NDArray[np.intp]:
    """Returns the reads of each rank as a matrix of whole batches (ranks x reads). Missing reads at
    the end are of the empty sample, whose number is `nothing`."""
    longest = -(-max(map(len, reads)) // batch_size) * batch_size
    matrix = np.full((len(reads), longest), nothing, dtype=np.intp)
    for row, each in zip(matrix, reads, strict=True):
        row[: len(each)] = each
    return matrix


def epoch_of(
    number: int,
    reads: NDArray[np.intp],
    sizes_bytes: NDArray[np.float64],
    compute_bytes_per_s: float,
    batch_size: int,
) -> Epoch:
    """Returns epoch number `number` with its computing times.

    reads: from `padded`. sizes_bytes: the size of each sample of the dataset, and 0 at the end for
    the empty one. compute_bytes_per_s: the rate at which a rank consumes."""
    sizes = np.empty(reads.shape)
    left_s = np.empty(reads.shape)
    for rank, row in enumerate(reads):
        np.take(sizes_bytes, row, out=sizes[rank])
        batches = sizes[rank].reshape(-1, batch_size)
        left = left_s[rank].reshape(-1, batch_size)
        np.cumsum(batches[:, ::-1], axis=1, out=left[:, ::-1])
        left /= compute_bytes_per_s
    return Epoch(number, reads, sizes, left_s, batch_size)
