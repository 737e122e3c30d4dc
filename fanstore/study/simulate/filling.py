"""The class prefetchers of NoPFS (section 5.2): threads of each storage class that fetch the files
which their node is to keep, in the order of its reads, while the job runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.plan.machine import System
from fanstore.policy.placement.rules import NOWHERE
from fanstore.study.simulate.sources import codes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def filling_ranks(system: System) -> float:
    """Returns as how many ranks the threads of the storage classes count that read from shared
    storage: each as much as a thread that fills a staging buffer."""
    threads = sum(each.threads for each in system.classes)
    return system.nodes * threads / system.staging_buffer.threads


class Filling:
    """How far each node's storage classes are filled with a placement.

    A file is there once its node has read it, or once the threads of its class have fetched it.
    These fetch first what the node reads next. If they fetch a part of some files in the time that
    is left, the files of that part are drawn at random, the same ones in each run.
    """

    def __init__(
        self, system: System, sizes_bytes: NDArray[np.int64], placement: NDArray[np.uint8]
    ) -> None:
        """placement: the storage class of each file on each node (nodes x files)."""
        nodes, files = placement.shape
        self._system, self._placement = system, placement
        self._sizes = sizes_bytes
        self._missing = placement != NOWHERE  # not read yet by the node
        self._missing_bytes = np.array([float(sizes_bytes[row].sum()) for row in self._missing])
        self._ahead_bytes = np.zeros(nodes)  # fetched before the node reads them
        self._rate = np.array([self._bytes_per_s(row) for row in placement])
        self._draw = np.random.default_rng(0).random(files, dtype=np.float32)
        self._begin()

    @property
    def is_done(self) -> bool:
        """Whether all files are there."""
        return bool((self._ahead_bytes >= self._missing_bytes).all())

    def codes(self, reads: NDArray[np.intp], duration_s: float) -> list[NDArray[np.uint8]]:
        """Returns the code of each read of an epoch (ranks x reads) that lasts so long."""
        known = np.append(self._draw, 2)
        found = []
        for rank, row in enumerate(reads):
            node = rank // self._system.ranks_per_node
            codes = self._codes[node][row]
            wanted = self._wanted_bytes(node, reads)
            part = (self._ahead_bytes[node] + self._rate[node] * duration_s) / max(1.0, wanted)
            own = np.append(self._placement[node], NOWHERE)[row]
            came = (own != NOWHERE) & (known[row] < part)
            base = np.uint8(len(self._system.classes) + 1)
            found.append(np.where(came, own * base + codes % base, codes))
        return found

    def end_epoch(self, reads: NDArray[np.intp], duration_s: float) -> None:
        """Notes that an epoch with these reads has lasted so long."""
        for node in range(len(self._placement)):
            wanted = self._wanted_bytes(node, reads)
            came = self._ahead_bytes[node] + self._rate[node] * duration_s
            self._ahead_bytes[node] = max(0.0, came - wanted)
            self._missing_bytes[node] -= wanted
            self._missing[node][self._read(node, reads)] = False
        self._begin()

    def _begin(self) -> None:
        part = self._ahead_bytes / np.maximum(1.0, self._missing_bytes)
        there = self._placement.copy()
        for row, missing, came in zip(there, self._missing, part, strict=True):
            row[missing & (self._draw >= came)] = NOWHERE
        self._codes = codes_of(there, len(self._system.classes))

    def _read(self, node: int, reads: NDArray[np.intp]) -> NDArray[np.intp]:
        local = self._system.ranks_per_node
        files = np.unique(reads[node * local : (node + 1) * local])
        return files[files < len(self._sizes)]

    def _wanted_bytes(self, node: int, reads: NDArray[np.intp]) -> float:
        files = self._read(node, reads)
        return float(self._sizes[files[self._missing[node][files]]].sum())

    def _bytes_per_s(self, classes: NDArray[np.uint8]) -> float:
        """Returns how fast a node's threads fill the classes that keep files, while all others
        do."""
        system = self._system
        share = system.shared.share_bytes_per_s(system.ranks + filling_ranks(system))
        used = [c for number, c in enumerate(system.classes) if (classes == number).any()]
        return sum(c.threads * min(share, c.write.share(c.threads)) for c in used)
