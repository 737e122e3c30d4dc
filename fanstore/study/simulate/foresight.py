"""When each node reads each sample next, for a whole job.

It is worked out from the last epoch to the first, and orders only go forward: what is read lies in
a temporary file meanwhile, 4 bytes a read, and what was found takes its place there.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.errors import UsageError
from fanstore.policy.cluster import NextUses
from fanstore.study.simulate.epochs import padded, reads_of_epochs
from fanstore.study.simulate.scenario import Scenario

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Foresight:
    """What an oracle knows of a job."""

    def __init__(self, scenario: Scenario, sample_count: int) -> None:
        """Raises UsageError where the temporary directory has no room for it."""
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
        """Returns for each read the place of the next one of its sample on that node, ranks x
        reads (fanstore.policy.cluster.NextUses)."""
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
