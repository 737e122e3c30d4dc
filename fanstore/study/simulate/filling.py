"""The class prefetchers of NoPFS (section 5.2): threads of each storage class that fetch the files
which their node is to keep, in the order of reads, while the job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy.placement.rules import NOWHERE
from fanstore.study.machine import StorageClass, System
from fanstore.study.simulate.sources import codes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Filling:
    """How far each node's storage classes are filled with a placement.

    Each file that is read is fetched by its reader if that keeps it, otherwise by the first node
    that does; it is there once it was read, or once the threads of its class have fetched it. These
    fetch first what is read next. If they fetch a part of some files in the time that is left, the
    files of that part are drawn at random, the same ones in each run. reading_ranks: as how many
    ranks the threads count among those that read from shared storage. fresh: whether a sample is
    fetched to be kept in this epoch, and in none before; the empty sample is not.
    """

    def __init__(
        self, system: System, sizes_bytes: NDArray[np.int64], placement: NDArray[np.uint8]
    ) -> None:
        """placement: the storage class of each file on each node (nodes x files)."""
        self._system, self._placement, self._sizes = system, placement, sizes_bytes
        kept = placement != NOWHERE
        self._keepers = np.where(kept.any(axis=0), kept.argmax(axis=0), len(placement))
        self._missing = kept
        self._seen = np.zeros(len(sizes_bytes), dtype=bool)  # by some node
        self._missing_bytes = np.array([float(sizes_bytes[row].sum()) for row in kept])
        self._ahead_bytes = np.zeros(len(placement))  # fetched before they are read
        self._draw = np.random.default_rng(0).random(len(sizes_bytes), dtype=np.float32)
        used = [self._used(row) for row in placement]
        # Each thread reads shared storage as much as one that fills a staging buffer.
        threads = sum(each.threads for classes in used for each in classes)
        self.reading_ranks = threads / system.staging_buffer.threads
        share = system.shared.share_bytes_per_s(system.ranks + self.reading_ranks)
        self._rates = np.array(
            [sum(c.threads * min(share, c.write.share(c.threads)) for c in each) for each in used]
        )

    @property
    def is_done(self) -> bool:
        """Is true once every node has all files that it is to keep."""
        return bool((self._ahead_bytes >= self._missing_bytes).all())

    def begin_epoch(self, reads: NDArray[np.intp]) -> None:
        """Tells the reads of the next epoch (ranks x reads)."""
        nodes = len(self._placement)
        wanted: list[list[NDArray[np.intp]]] = [[] for _ in range(nodes)]
        for node, row in enumerate(reads.reshape(nodes, -1)):
            files = np.unique(row[row < len(self._sizes)])
            own = self._placement[node][files] != NOWHERE
            wanted[node].append(files[own])
            for keeper in range(nodes):
                wanted[keeper].append(files[~own & (self._keepers[files] == keeper)])
        pairs = zip(self._missing, map(np.concatenate, wanted), strict=True)
        self._wanted = [files[missing[files]] for missing, files in pairs]
        self._wanted_bytes = np.array([float(self._sizes[each].sum()) for each in self._wanted])
        self.fresh = np.zeros(len(self._sizes) + 1, dtype=bool)
        self.fresh[np.concatenate(self._wanted)] = True
        self.fresh[:-1] &= ~self._seen

    def codes(self, duration_s: float) -> NDArray[np.uint8]:
        """Returns the code of each sample on each node in this epoch, if it lasts so long."""
        there = self._placement.copy()
        later = self._ahead_bytes / np.maximum(1.0, self._missing_bytes)
        came = self._ahead_bytes + self._rates * duration_s
        parts = came / np.maximum(1.0, self._wanted_bytes)
        for node, row in enumerate(there):
            row[self._missing[node] & (self._draw >= later[node])] = NOWHERE
            files = self._wanted[node][self._draw[self._wanted[node]] < parts[node]]
            row[files] = self._placement[node][files]
        return codes_of(there, len(self._system.classes))

    def end_epoch(self, duration_s: float) -> None:
        """Notes that this epoch has lasted so long."""
        came = self._ahead_bytes + self._rates * duration_s
        self._ahead_bytes = np.maximum(0.0, came - self._wanted_bytes)
        self._missing_bytes -= self._wanted_bytes
        for missing, files in zip(self._missing, self._wanted, strict=True):
            missing[files] = False
            self._seen[files] = True

    def _used(self, row: NDArray[np.uint8]) -> list[StorageClass]:
        """Returns the storage classes in which a node keeps files."""
        numbers = np.unique(row)
        return [c for number, c in enumerate(self._system.classes) if number in numbers]
