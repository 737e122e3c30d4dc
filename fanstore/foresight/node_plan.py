"""A plan file (`fanstore study plan`) as one node of a job follows it: what it keeps and reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.dataset import Dataset
from fanstore.errors import FanstoreError, UsageError
from fanstore.foresight.order.follow import Expected
from fanstore.foresight.order_file import expected
from fanstore.plan.planfile import PlanFile, filling
from fanstore.staging.chosen import Chosen
from fanstore.staging.index import DatasetInfo
from fanstore.startup import RankLost, World
from fanstore.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

MEMORY = "ram"  # the storage class with this name is memory; all others are the local directory


class NodePlan:
    """The plan of a job. Close it when the job ends."""

    def __init__(self, path: str, node: int) -> None:
        """path: the plan file; node: this node's number. Raises PlanDamaged, UsageError,
        OSError."""
        self._file = PlanFile(Path(path))
        self._node = node
        self._records: NDArray[np.int64] | None = None

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    @property
    def dataset_id(self) -> str:
        """The id of the dataset that the plan is for."""
        return self._file.description.dataset_id

    def check(self, infos: Sequence[DatasetInfo], world_size: int) -> None:
        """Raises UsageError if the plan is for another number of nodes, or for none of the datasets
        `infos`."""
        told = self._file.description
        if told.system.nodes != world_size:
            raise UsageError(
                f"{self._file.path}: system.nodes is {told.system.nodes}; allowed: {world_size}, "
                f"for the job has {counted(world_size, 'node')}"
            )
        if self.dataset_id not in [info.dataset_id for info in infos]:
            named = ", ".join(f"{info.dataset_id} ({info.name})" for info in infos)
            raise UsageError(
                f"{self._file.path}: dataset.id is {self.dataset_id}; allowed: {named}, of this job"
            )

    def choose(self, dataset: Dataset) -> Chosen | None:
        """Returns the records of a dataset that this node is to keep; None if the plan is for
        another dataset. Raises PlanDamaged, UsageError, OSError."""
        if dataset.dataset_id != self.dataset_id:
            return None
        records = self._file.check_dataset(dataset).records
        self._records = records
        kept = self._file.kept(self._node)
        first_reads = self._file.node_reads(self._node, 0)
        names = [each.name for each in self._file.description.system.classes]
        of_disk = [number for number, name in enumerate(names) if name != MEMORY]
        of_memory = [number for number, name in enumerate(names) if name == MEMORY]
        return Chosen(
            records[filling(np.isin(kept, of_disk), first_reads)],
            records[filling(np.isin(kept, of_memory), first_reads)],
        )

    def epochs(self, mount: int) -> Iterator[Expected]:
        """Yields this node's reads of the dataset in each epoch; call `choose` first. mount: the
        number of the dataset's mount."""
        records = self._records
        if records is not None:
            for reads in self._file.node_epochs(self._node):
                yield expected(mount, records[reads].astype(np.uint64))


def open_node_plan(path: str, infos: Sequence[DatasetInfo], world: World) -> NodePlan:
    """Opens the plan of a job on all its ranks. If one rank cannot open it, that rank raises the
    error (see NodePlan), and the others raise RankLost."""
    problem: FanstoreError | None = None
    plan = None
    try:
        plan = NodePlan(path, world.rank)
        plan.check(infos, world.world_size)
    except FanstoreError as error:
        problem = error
    except OSError as error:
        problem = UsageError(f"--plan {path}: {error.strerror}")
    problems = world.gather_all(None if problem is None else str(problem))
    found = [rank for rank, text in enumerate(problems) if text is not None]
    if plan is not None and not found:
        return plan
    if plan is not None:
        plan.close()
    if problem is not None and found[0] == world.rank:
        raise problem
    raise RankLost(problems[found[0]], told=True)
