"""Simulates caches on each node, in its first storage class, whose content changes with each read;
and DeepIO's opportunistic order, in which such a cache decides which sample is read (Zhu et al.
2018, section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fanstore.arrays import np
from fanstore.policy.cluster import ELSEWHERE, HERE, NOWHERE, WITH_NEXT_USES, Cluster
from fanstore.policy.orders.shuffles import through_buffer
from fanstore.study.simulate.workload import Workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.arrays import np


class Caches(Protocol):
    """The caches of all nodes under a policy, simulated epoch by epoch."""

    @property
    def peak_bytes(self) -> int:
        """The most bytes that the cache of a node held at once."""

    def found(self, epoch: int, reads: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Simulates the reads of an epoch. Returns where each read finds its sample: NOWHERE, HERE
        or ELSEWHERE of fanstore.policy.cluster, ranks x reads. reads: the policy's own, from
        `padded`."""


class NodeCaches:
    """Caches that follow a policy of csrc/policy/victims.h, read by read."""

    def __init__(
        self,
        workload: Workload,
        policy: str,
        placement: NDArray[np.uint8] | None,
        capacity_bytes: int,
        together: bool,
    ) -> None:
        """placement: the storage class of files that nodes have besides their caches.
        capacity_bytes: of each cache. together: nodes read from each other's caches."""
        system = workload.system
        self._cluster = Cluster(
            policy, workload.sizes_bytes, capacity_bytes, system.nodes, system.ranks_per_node
        )
        self._foresight = workload.foresight if policy in WITH_NEXT_USES else None
        self._placement = placement
        self._together = together

    @property
    def peak_bytes(self) -> int:
        """The most bytes that the cache of a node held at once."""
        return self._cluster.peak_bytes

    def found(self, epoch: int, reads: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Implements Caches.found."""
        coming = None if self._foresight is None else self._foresight.of_epoch(epoch)
        found = self._cluster.read(reads, coming, self._placement)
        if not self._together:
            found[found == ELSEWHERE] = NOWHERE
        return found


_NOBODY = -1


class OpportunisticCaches:
    """The nodes' memories, which decide the reads (Zhu et al. 2018, section 3).

    The paper does not say how memory is refilled. Here the next sample is any of those in memory,
    on whichever node, for whichever rank; one that was not read yet in this epoch takes its place
    from shared storage, while any are left. So an epoch begins with the content of memory from the
    last one. A sample counts as read from shared storage by the rank that consumes it, and lies on
    that rank's node from then on; a node holds those of these that it read last.
    """

    def __init__(self, workload: Workload) -> None:
        self._sizes = workload.sizes_bytes
        self._ranks_per_node = workload.system.ranks_per_node
        self._capacity = int(workload.memory_bytes[0, 0])
        self._holders = np.full(len(self._sizes), _NOBODY, dtype=np.int32)
        self.peak_bytes = 0

    def reads_of(self, epoch: int, reads: NDArray[np.intp]) -> NDArray[np.intp]:
        """Returns the samples of an epoch in the opportunistic order, in place of the job's
        `reads`; this is a Reordering (policies.py)."""
        by_turns = reads.T.ravel()
        read = by_turns != len(self._sizes)
        rng = np.random.default_rng(epoch)
        samples = rng.permutation(by_turns[read])
        absent = self._holders[samples] == _NOBODY
        coming = samples[np.argsort(absent, kind="stable")]
        held = len(samples) - int(absent.sum())
        if held:
            words = rng.integers(0, 2**32, len(samples), dtype=np.uint64)
            coming = coming[through_buffer(len(samples), held, words)]
        changed = by_turns.copy()
        changed[read] = coming
        return np.ascontiguousarray(changed.reshape(reads.T.shape).T)

    def found(self, epoch: int, reads: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Implements Caches.found."""
        holders = np.append(self._holders, _NOBODY)
        found = np.empty(reads.shape, dtype=np.uint8)
        for rank, row in enumerate(reads):
            held_by = holders[row]
            here = held_by == rank // self._ranks_per_node
            found[rank] = np.where(here, HERE, np.where(held_by == _NOBODY, NOWHERE, ELSEWHERE))
        self._fill(reads, found)
        return found

    def _fill(self, reads: NDArray[np.intp], found: NDArray[np.uint8]) -> None:
        """Fills each node's memory with the samples that came last from shared storage, then with
        those that it held before, as far as there is room."""
        before = self._holders
        self._holders = np.full(len(self._sizes), _NOBODY, dtype=np.int32)
        for node in range(len(reads) // self._ranks_per_node):
            ranks = slice(node * self._ranks_per_node, (node + 1) * self._ranks_per_node)
            came = reads[ranks].T.ravel()[found[ranks].T.ravel() == NOWHERE][::-1]
            came = came[came < len(self._sizes)]
            wanted = np.concatenate((came, np.flatnonzero(before == node)))
            upto_bytes = np.cumsum(self._sizes[wanted])
            kept = wanted[upto_bytes <= self._capacity]
            self._holders[kept] = node
            self.peak_bytes = max(self.peak_bytes, int(self._sizes[kept].sum()))
