"""What policies decide by: the scenario with its files, and what will be read."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy.frequency import frequencies
from fanstore.simulate.epochs import by_node, reads_of_epochs
from fanstore.simulate.scenario import Scenario

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Workload:
    """A scenario with its files drawn. What takes long is worked out once, when first asked for."""

    def __init__(self, scenario: Scenario) -> None:
        """Raises UsageError where the files cannot be had."""
        self.scenario = scenario
        self.system = scenario.system
        self.sizes_bytes = scenario.sizes.draw()

    @property
    def dataset_bytes(self) -> int:
        """The size of the dataset."""
        return int(self.sizes_bytes.sum())

    @property
    def capacities_bytes(self) -> NDArray[np.int64]:
        """Nodes x storage classes."""
        row = [each.capacity_bytes for each in self.system.classes]
        return np.tile(np.array(row, dtype=np.int64), (self.system.nodes, 1))

    @property
    def memory_bytes(self) -> NDArray[np.int64]:
        """The same with nothing in all classes but the first."""
        rooms = self.capacities_bytes
        rooms[:, 1:] = 0
        return rooms

    @cached_property
    def first_reads(self) -> list[NDArray[Any]]:
        """What the ranks of each node read in the first epoch."""
        first = next(reads_of_epochs(self.scenario, len(self.sizes_bytes)))
        return by_node(first, self.system.ranks_per_node)

    @property
    def first_order(self) -> NDArray[Any]:
        """The samples of the first epoch, each once, node by node."""
        samples = np.concatenate(self.first_reads)
        first = np.zeros(len(samples), dtype=bool)
        first[np.unique(samples, return_index=True)[1]] = True
        return samples[first]

    @cached_property
    def frequencies(self) -> NDArray[np.uint16]:
        """How often each node reads each sample in the whole job."""
        count, ranks_per_node = len(self.sizes_bytes), self.system.ranks_per_node
        coming = reads_of_epochs(self.scenario, count)
        return frequencies(count, (by_node(reads, ranks_per_node) for reads in coming))
