"""What each rank reads in each epoch, as matrices of whole batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.errors import UsageError
from fanstore.policy.orders.ranks import reads_of_ranks
from fanstore.simulate.scenario import Scenario

if TYPE_CHECKING:
    from numpy.typing import NDArray


def reads_of_epochs(scenario: Scenario, sample_count: int) -> Iterator[list[NDArray[Any]]]:
    """Yields for each epoch of the job what each rank reads. Raises UsageError where the order
    does not take its parameters."""
    job = scenario.job
    if job.recorded:
        yield from islice(cycle(job.recorded), job.epochs)
        return
    try:
        coming = reads_of_ranks(
            job.order, sample_count, scenario.system.ranks, **job.order_parameters
        )
        yield from islice(coming, job.epochs)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{scenario.file}: job.order: {error}") from None


def by_node(reads: list[NDArray[Any]], ranks_per_node: int) -> list[NDArray[Any]]:
    """Returns what the ranks of each node read, by turns as far as all have something to read."""
    return [
        _by_turns(reads[first : first + ranks_per_node])
        for first in range(0, len(reads), ranks_per_node)
    ]


def _by_turns(reads: list[NDArray[Any]]) -> NDArray[Any]:
    turns = np.concatenate([np.arange(len(each)) for each in reads])
    together: NDArray[Any] = np.concatenate(reads)[np.argsort(turns, kind="stable")]
    return together


@dataclass(frozen=True)
class Epoch:
    """One epoch. reads: samples, ranks x reads, whole batches; where a rank's last batches are not
    full stands a sample beyond the last, which is empty. sizes_bytes: of what is read.
    left_s: how long a rank computes from the start of each sample to the end of its batch."""

    number: int
    reads: NDArray[np.intp]
    sizes_bytes: NDArray[np.float64]
    left_s: NDArray[np.float64]
    batch_size: int

    @property
    def batches(self) -> int:
        """The number of batches of each rank."""
        return int(self.reads.shape[1]) // self.batch_size

    @cached_property
    def compute_s(self) -> NDArray[np.float64]:
        """How long the slowest rank computes with each batch."""
        longest: NDArray[np.float64] = self.left_s[:, :: self.batch_size].max(axis=0)
        return longest

    @cached_property
    def batch_bytes(self) -> NDArray[np.int64]:
        """The bytes of each batch: ranks x batches."""
        rows = self.sizes_bytes.reshape(len(self.reads), self.batches, self.batch_size)
        totals: NDArray[np.int64] = rows.sum(axis=2).astype(np.int64)
        return totals


def padded(reads: list[NDArray[Any]], batch_size: int, nothing: int) -> NDArray[np.intp]:
    """Returns reads as a matrix of whole batches, filled up with the sample `nothing`."""
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
    """Returns an epoch. reads: from padded; sizes_bytes: of all samples and the empty one."""
    sizes = np.empty(reads.shape)
    left_s = np.empty(reads.shape)
    for rank, row in enumerate(reads):
        np.take(sizes_bytes, row, out=sizes[rank])
        batches = sizes[rank].reshape(-1, batch_size)
        left = left_s[rank].reshape(-1, batch_size)
        np.cumsum(batches[:, ::-1], axis=1, out=left[:, ::-1])
        left /= compute_bytes_per_s
    return Epoch(number, reads, sizes, left_s, batch_size)
