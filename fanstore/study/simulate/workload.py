"""A job as its policy plans it: the scenario, the sizes of files, all future reads, and each node's
next read of each sample."""

from __future__ import annotations

import tempfile
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.errors import UsageError
from fanstore.policy.cluster import NextUses
from fanstore.policy.next_use import frequencies
from fanstore.policy.orders.registry import by_node
from fanstore.study.simulate.epochs import padded, reads_of_epochs
from fanstore.study.simulate.scenario import Scenario

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Foresight:
    """The knowledge of an oracle: when each node reads each sample next.

    It is computed from the last epoch to the first, but orders can only be generated forwards. So
    all reads are written to a temporary file, 4 bytes each, and each result replaces its read
    there."""

    def __init__(self, scenario: Scenario, sample_count: int) -> None:
        """Raises UsageError if the temporary directory has no room for the reads."""
        self._ranks = scenario.system.ranks
        try:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 -- as long as this lives
            self._write(scenario, sample_count)
        except OSError as error:
            raise UsageError(
                f"the temporary directory: {error.strerror}; policies that know what comes write 4 "
                "bytes for each read of the job there; TMPDIR names another directory"
            ) from None

    def of_epoch(self, number: int) -> NDArray[np.uint32]:
        """Returns for each read the place of the node's next read of the sample, ranks x reads
        (fanstore.policy.cluster.NextUses)."""
        return self._read(number).reshape(self._ranks, -1)

    def _write(self, scenario: Scenario, sample_count: int) -> None:
        self._ends = [0]
        for reads in reads_of_epochs(scenario, sample_count):
            matrix = padded(reads, scenario.job.batch_size, sample_count)
            self._file.write(matrix.astype(np.uint32).data)
            self._ends.append(self._file.tell())
        system = scenario.system
        places = self._ends[-1] // (4 * system.nodes)
        coming = NextUses(sample_count, system.nodes, system.ranks_per_node, places)
        for number in reversed(range(len(self._ends) - 1)):
            uses = coming.before(self.of_epoch(number))
            self._file.seek(self._ends[number])
            self._file.write(uses.data)
        self._file.flush()

    def _read(self, number: int) -> NDArray[np.uint32]:
        self._file.seek(self._ends[number])
        array = np.empty((self._ends[number + 1] - self._ends[number]) // 4, dtype=np.uint32)
        self._file.readinto(array.data)
        return array


class Workload:
    """A scenario with the sizes of its files (sizes_bytes, files). Values that take long to compute
    are computed when first asked for, and kept."""

    def __init__(self, scenario: Scenario) -> None:
        """Raises UsageError if the sizes of files cannot be read."""
        self.scenario = scenario
        self.system = scenario.system
        self.sizes_bytes = scenario.sizes.draw()

    def forget(self) -> None:
        """Drops the values about the whole job, which take the most memory."""
        for name in ("frequencies", "foresight"):
            self.__dict__.pop(name, None)

    @property
    def dataset_bytes(self) -> int:
        """The bytes of all files together."""
        return int(self.sizes_bytes.sum())

    @property
    def capacities_bytes(self) -> NDArray[np.int64]:
        """The bytes that each storage class of each node holds (nodes x classes)."""
        row = [each.capacity_bytes for each in self.system.classes]
        return np.tile(np.array(row, dtype=np.int64), (self.system.nodes, 1))

    @property
    def memory_bytes(self) -> NDArray[np.int64]:
        """The bytes of each node's first storage class, and 0 for its others (nodes x classes)."""
        rooms = self.capacities_bytes
        rooms[:, 1:] = 0
        return rooms

    @cached_property
    def first_reads(self) -> list[NDArray[Any]]:
        """The samples that each node reads in the first epoch, from registry.by_node."""
        first = next(reads_of_epochs(self.scenario, len(self.sizes_bytes)))
        return by_node(first, self.system.ranks_per_node)

    @property
    def first_order(self) -> NDArray[Any]:
        """The samples of the first epoch, one node after the other, each at its first place."""
        samples = np.concatenate(self.first_reads)
        first = np.zeros(len(samples), dtype=bool)
        first[np.unique(samples, return_index=True)[1]] = True
        return samples[first]

    @cached_property
    def frequencies(self) -> NDArray[np.uint16]:
        """How often each node reads each sample in the whole job (nodes x samples)."""
        count, ranks_per_node = len(self.sizes_bytes), self.system.ranks_per_node
        coming = reads_of_epochs(self.scenario, count)
        return frequencies(count, (by_node(reads, ranks_per_node) for reads in coming))

    @cached_property
    def foresight(self) -> Foresight:
        """When each node reads each sample next in the whole job."""
        return Foresight(self.scenario, len(self.sizes_bytes))
