"""Makes a plan: places files by frequency, and computes the expected times with the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.atomic import whole_file
from fanstore.dataset import Dataset
from fanstore.errors import FanstoreError, UsageError
from fanstore.plan.container import DESCRIPTION, KEPT, READS, write_container
from fanstore.plan.description import ExpectedTimes, PlanDescription
from fanstore.plan.samples import Samples
from fanstore.policy.next_use import frequencies
from fanstore.policy.orders.registry import by_node
from fanstore.policy.placement.by_frequency import by_frequency_partitioned
from fanstore.study.formulas import lower_bound_s
from fanstore.study.planning.request import PlanRequest
from fanstore.study.simulate.engine import outcome_of
from fanstore.study.simulate.epochs import reads_of_epochs
from fanstore.study.simulate.policies import PolicyPlan
from fanstore.study.simulate.scenario import Scenario, Sizes
from fanstore.study.simulate.workload import Workload
from fanstore.wording import counted, show_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class PlanSteps:
    """Callbacks that report progress. begin: called with the name of each step; epoch: called after
    each epoch; the plan goes through all epochs twice."""

    begin: Callable[[str], object]
    epoch: Callable[[], object]


_DIGITS = 3  # digits of seconds; with more, the result would depend on the version of NumPy


def make_plan(
    dataset: Dataset,
    under: str,
    samples: Samples,
    request: PlanRequest,
    path: Path,
    force: bool,
    steps: PlanSteps,
) -> PlanDescription:
    """Writes the plan of a job to `path` and returns its description. Raises UsageError for a
    request that contradicts itself, FanstoreError if memory is too small, OSError."""
    with whole_file(path, force) as stream:
        try:
            placement = _placement(request, samples, steps)
            told = _described(dataset, under, samples, request, placement, steps)
        except MemoryError:
            raise FanstoreError(f"{path}: {_memory_words(request, len(samples.records))}") from None
        sections = 1 + sum(map(len, told.kept_files)) + told.recorded_epochs * told.system.ranks
        write_container(stream, _sections(told, request, placement), sections)
    return told


def _memory_words(request: PlanRequest, files: int) -> str:
    """Returns a clause for an error: how much memory a plan needs, and for what: 56 bytes for each
    read, in whole batches."""
    system, batch = request.system, request.job.batch_size
    batches = -(-files // (system.ranks * batch))
    needed = (4 * system.nodes + 60) * files + 56 * system.ranks * batches * batch
    return (
        f"a plan of {counted(files, 'file')} on {counted(system.nodes, 'node')}, in batches of "
        f"{batch:,}, needs about {show_bytes(needed)} of memory"
    )


def _scenario(request: PlanRequest, samples: Samples) -> Scenario:
    sizes = Sizes("dataset", lambda: samples.sizes_bytes)
    return Scenario(request.file, "a plan", request.system, sizes, request.job)


def _placement(
    request: PlanRequest, samples: Samples, steps: PlanSteps
) -> NDArray[np.uint8] | None:
    """Returns the storage class of each sample on each node; None if nothing can be kept."""
    system, count = request.system, len(samples.records)

    def reads_of_nodes() -> Iterator[list[NDArray[Any]]]:
        for reads in reads_of_epochs(_scenario(request, samples), count):
            yield by_node(reads, system.ranks_per_node)
            steps.epoch()

    try:
        steps.begin("counting reads")
        counts = frequencies(count, reads_of_nodes())
        room = [each.capacity_bytes for each in system.classes]
        if not sum(room):
            return None
        capacities = np.tile(np.array(room, dtype=np.int64), (system.nodes, 1))
        steps.begin("placing files")
        return by_frequency_partitioned(samples.room_bytes, counts, capacities)
    except ValueError as error:
        raise UsageError(f"{request.file}: {error}") from None


def _described(
    dataset: Dataset,
    under: str,
    samples: Samples,
    request: PlanRequest,
    placement: NDArray[np.uint8] | None,
    steps: PlanSteps,
) -> PlanDescription:
    kept_files, kept_bytes = _kept(request, samples, placement)
    return PlanDescription(
        dataset.dataset_id,
        under,
        len(samples.records),
        samples.total_bytes,
        request.system_table,
        request.job_table,
        request.system,
        request.job,
        kept_files,
        kept_bytes,
        _expected(request, samples, placement, steps),
    )


def _kept(
    request: PlanRequest, samples: Samples, placement: NDArray[np.uint8] | None
) -> tuple[list[list[int]], list[list[int]]]:
    """Returns the number of files and of bytes, by node and storage class."""
    nodes, classes = request.system.nodes, len(request.system.classes)
    if placement is None:
        nothing = [[0] * classes] * nodes
        return nothing, nothing
    files, room = [], []
    for row in placement:
        files.append(np.bincount(row, minlength=classes)[:classes].tolist())
        room.append([int(samples.room_bytes[row == number].sum()) for number in range(classes)])
    return files, room


def _expected(
    request: PlanRequest,
    samples: Samples,
    placement: NDArray[np.uint8] | None,
    steps: PlanSteps,
) -> ExpectedTimes:
    steps.begin("simulating")
    workload = Workload(_scenario(request, samples))
    outcome = outcome_of(workload, PolicyPlan(placement=placement, fills=True), steps.epoch)
    system = request.system
    least_s = 0.0
    if samples.total_bytes:
        least_s = lower_bound_s(samples.total_bytes, system.ranks, system.compute_bytes_per_s)
    return ExpectedTimes(
        [round(each, _DIGITS) for each in outcome.epochs_s],
        round(outcome.computed_s, _DIGITS),
        round(least_s, _DIGITS),
        outcome.source_bytes,
        outcome.memory_max_bytes,
    )


def _sections(
    told: PlanDescription, request: PlanRequest, placement: NDArray[np.uint8] | None
) -> Iterator[tuple[int, int, bytes]]:
    yield DESCRIPTION, 0, told.encode()
    classes = len(told.system.classes)
    for node in range(told.system.nodes):
        for number in range(classes):
            if placement is None:
                bits = np.zeros(told.files, dtype=bool)
            else:
                bits = placement[node] == number
            content = np.packbits(bits, bitorder="little").tobytes()
            yield KEPT, node * classes + number, content
    for epoch, ranks in enumerate(request.job.recorded):
        for rank, reads in enumerate(ranks):
            yield READS, epoch * told.system.ranks + rank, reads.astype("<u4").tobytes()
