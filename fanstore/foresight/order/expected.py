"""What one loader of one process and its workers will open in one epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Expected:
    """mount: the number of the mount in its job. records: the record ids of the files in the order
    of sampling, uint64 (samples); one that is read again is there again. workers: 0 where the
    process itself reads. batch: samples. prefetch_factor: batches that each worker is ahead.
    in_order: whether batches leave the loader as they were sampled (of torch's DataLoader).

    Raises ValueError for values out of range.
    """

    mount: int
    records: NDArray[np.uint64]
    workers: int = 0
    batch: int = 1
    prefetch_factor: int = 2
    in_order: bool = True

    def __post_init__(self) -> None:
        checks.integer("mount", self.mount, 0)
        checks.integer("workers", self.workers, 0)
        checks.integer("batch", self.batch, 1)
        checks.integer("prefetch_factor", self.prefetch_factor, 1)
        checks.flag("in_order", self.in_order)
        records = checks.reads("records", self.records, 2**63)
        object.__setattr__(self, "records", records.astype(np.uint64, copy=False))

    @property
    def reordered(self) -> int:
        """How many samples may be under way at once: opens are so far from the order at most."""
        return self.batch * max(1, self.workers * self.prefetch_factor)
