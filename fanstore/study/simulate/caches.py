"""Caches whose content changes with each read, one on each node in its first storage class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fanstore.policy.cluster import ELSEWHERE, NOWHERE, WITH_NEXT_USES, Cluster
from fanstore.study.simulate.workload import Workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.arrays import np


class Caches(Protocol):
    """What a policy with such caches is asked, epoch by epoch."""

    @property
    def peak_bytes(self) -> int:
        """The most that the cache of a node held at once."""

    def found(self, epoch: int, reads: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Returns where each read finds its sample: NOWHERE, HERE or ELSEWHERE of
        fanstore.policy.cluster, ranks x reads. reads: from padded, what the policy reads."""


class NodeCaches:
    """Caches that follow a policy of csrc/policy/victims.h, each read as it comes."""

    def __init__(
        self, workload: Workload, policy: str, placement: NDArray[np.uint8] | None, alone: bool
    ) -> None:
        """placement: what nodes have outside of their caches. alone: a cache serves its node
        alone."""
        system = workload.system
        capacity_bytes = system.classes[0].capacity_bytes
        self._cluster = Cluster(
            policy, workload.sizes_bytes, capacity_bytes, system.nodes, system.ranks_per_node
        )
        self._foresight = workload.foresight if policy in WITH_NEXT_USES else None
        self._placement = placement
        self._alone = alone

    @property
    def peak_bytes(self) -> int:
        """See Caches."""
        return self._cluster.peak_bytes

    def found(self, epoch: int, reads: NDArray[np.intp]) -> NDArray[np.uint8]:
        """See Caches."""
        coming = None if self._foresight is None else self._foresight.of_epoch(epoch)
        found = self._cluster.read(reads, coming, self._placement)
        if self._alone:
            found[found == ELSEWHERE] = NOWHERE
        return found
