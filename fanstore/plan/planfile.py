"""Opens a plan file, and computes the fetches of each node from it. Each section is checked when it
is first used."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.dataset import Dataset
from fanstore.errors import UsageError
from fanstore.plan.container import (
    DESCRIPTION,
    DESCRIPTION_MAX_BYTES,
    HEADER,
    KEPT,
    READS,
    PlanContainer,
    PlanDamaged,
    PlanSection,
)
from fanstore.plan.description import PlanDescription, decode
from fanstore.plan.samples import Samples, samples_below
from fanstore.policy.next_use import first_places
from fanstore.policy.orders.registry import by_node, reads_of_ranks
from fanstore.policy.placement.rules import NOWHERE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def filling(kept: NDArray[np.bool_], first_reads: NDArray[Any]) -> NDArray[np.intp]:
    """Returns the samples that a node keeps, in the order in which it gets them: first those that
    it reads in the first epoch, as it first reads them, then the others, by number. No plan holds
    this order: the rule is part of the format (docs/format.md, "Samples and schedule"), so that a
    runtime that follows a plan and the plan's expectations use the same one.

    kept: for each sample whether the node keeps it; first_reads: the node's reads of the first
    epoch.
    """
    samples = kept.nonzero()[0]
    places = first_places(first_reads, len(kept))[samples]
    order: NDArray[np.intp] = samples[places.argsort(kind="stable")]
    return order


def fetches(kept: NDArray[np.bool_], reads: NDArray[Any]) -> NDArray[Any]:
    """Returns the samples that a node fetches ahead in an epoch after the first: its reads of that
    epoch, in their order, without those that it keeps. In the first epoch it fetches all its
    reads."""
    missing: NDArray[Any] = reads[~kept[reads]]
    return missing


class PlanFile:
    """An open plan file. `description` has everything but the arrays. Close it when done, or use
    `with`."""

    def __init__(self, path: Path) -> None:
        """Checks header, table and description. Raises PlanDamaged, UsageError, OSError."""
        self.path = path
        self._container = PlanContainer(path)
        try:
            self.description = self._described()
        except BaseException:
            self._container.close()
            raise

    def _described(self) -> PlanDescription:
        sections = self._container.sections
        if not sections or sections[0].kind != DESCRIPTION:
            raise PlanDamaged(self.path, "table", HEADER.size, "the description is not the first")
        if sections[0].size > DESCRIPTION_MAX_BYTES:
            reason = f"{sections[0].size:,} bytes are too many"
            raise PlanDamaged(self.path, sections[0].name, sections[0].offset, reason)
        found = decode(self.path, self._container.read(sections[0]), sections[0].offset)
        bitmaps = found.system.nodes * len(found.system.classes)
        reads = found.recorded_epochs * found.system.ranks
        # otherwise a damaged number could ask for a list of any length
        if len(sections) == 1 + bitmaps + reads:
            kept = [(KEPT, number) for number in range(bitmaps)]
            recorded = [(READS, number) for number in range(reads)]
            self._container.check_kinds([(DESCRIPTION, 0), *kept, *recorded])
            return found
        reason = f"{len(sections):,} sections, and the job has {1 + bitmaps + reads:,}"
        raise PlanDamaged(self.path, "table", HEADER.size, reason)

    def kept(self, node: int) -> NDArray[np.uint8]:
        """Returns the storage class in which a node keeps each sample, or NOWHERE. Raises
        PlanDamaged, OSError."""
        told = self.description
        sections = [self._kept_section(node, number) for number in range(len(told.system.classes))]
        # before memory is allocated for the number of files, which may be damaged
        for section in sections:
            if section.size != -(-told.files // 8):
                reason = f"{section.size:,} bytes for {told.files:,} files"
                raise PlanDamaged(self.path, section.name, section.offset, reason)
        row = np.full(told.files, NOWHERE, dtype=np.uint8)
        for number, (section, each) in enumerate(zip(sections, told.system.classes, strict=True)):
            bits = np.frombuffer(self._container.read(section), dtype=np.uint8)
            kept = np.unpackbits(bits, bitorder="little")
            taken = np.flatnonzero(kept[: told.files])
            problem = None
            if kept[told.files :].any():
                problem = "keeps files beyond the last"
            elif (row[taken] != NOWHERE).any():
                problem = "keeps files that another storage class keeps"
            elif len(taken) != told.kept_files[node][number]:
                problem = f"keeps {len(taken):,} files, not those of kept.files"
            elif told.kept_bytes[node][number] > each.capacity_bytes:
                problem = f"keeps more than the capacity of {each.name}"
            if problem is not None:
                raise PlanDamaged(self.path, section.name, section.offset, problem)
            row[taken] = number
        return row

    def _kept_section(self, node: int, number: int) -> PlanSection:
        return self._container.sections[1 + node * len(self.description.system.classes) + number]

    def reads(self, epoch: int) -> list[NDArray[Any]]:
        """Returns the reads of each rank in an epoch. Raises PlanDamaged, UsageError, OSError. The
        memory for a computed order grows with the number of files: call check_dataset first, which
        checks that number."""
        told = self.description
        if not 0 <= epoch < told.job.epochs:
            allowed = f"0 to {told.job.epochs - 1}"
            raise UsageError(f"{self.path}: there is no epoch {epoch}; allowed: {allowed}")
        if told.recorded_epochs:
            first = epoch % told.recorded_epochs * told.system.ranks
            return [self._recorded(first + rank) for rank in range(told.system.ranks)]
        return next(self._worked_out(epoch))

    def _worked_out(self, first_epoch: int) -> Iterator[list[NDArray[Any]]]:
        """Yields the reads of each rank in each epoch from `first_epoch` on, without end, if the
        plan names an order."""
        told = self.description
        files, ranks = told.files, told.system.ranks
        try:
            yield from reads_of_ranks(
                told.job.order, files, ranks, first_epoch, **told.job.order_parameters
            )
        except (TypeError, ValueError) as error:
            raise UsageError(f"{self.path}: job.order: {error}") from None

    def node_reads(self, node: int, epoch: int) -> NDArray[Any]:
        """Returns the reads of a node in an epoch: those of its ranks in turn. Raises as `reads`
        does."""
        return self._of_node(node, self.reads(epoch))

    def node_epochs(self, node: int) -> Iterator[NDArray[Any]]:
        """Returns an iterator over the reads of a node in each epoch of the job, which computes
        them when asked. Raises as `reads` does."""
        epochs = range(self.description.job.epochs)
        coming: Iterator[list[NDArray[Any]]] = map(self.reads, epochs)
        if not self.description.recorded_epochs:
            coming = islice(self._worked_out(0), len(epochs))
        return (self._of_node(node, reads) for reads in coming)

    def _of_node(self, node: int, reads: list[NDArray[Any]]) -> NDArray[Any]:
        ranks = self.description.system.ranks_per_node
        return by_node(reads[node * ranks :][:ranks], ranks)[0]

    def _recorded(self, number: int) -> NDArray[np.uint32]:
        section = self._container.sections[number - self._recorded_count]
        content = self._container.read(section)
        if not content or len(content) % 4:
            raise PlanDamaged(self.path, section.name, section.offset, "not one or more u32")
        reads = np.frombuffer(content, dtype="<u4")
        if reads.max() >= self.description.files:
            raise PlanDamaged(self.path, section.name, section.offset, "samples beyond the last")
        return reads

    @property
    def _recorded_count(self) -> int:
        return self.description.recorded_epochs * self.description.system.ranks

    def check(self, samples: Samples | None = None) -> None:
        """Checks every section. If the samples of the dataset are given, also checks the number of
        bytes kept. Raises PlanDamaged, OSError."""
        for node, told in enumerate(self.description.kept_bytes):
            row = self.kept(node)
            for number, kept_bytes in enumerate(told):
                if samples and int(samples.room_bytes[row == number].sum()) != kept_bytes:
                    section = self._kept_section(node, number)
                    reason = "keeps other bytes than those of kept.bytes"
                    raise PlanDamaged(self.path, section.name, section.offset, reason)
        for number in range(self._recorded_count):
            self._recorded(number)

    def check_dataset(self, dataset: Dataset) -> Samples:
        """Returns the samples of the plan in `dataset`. Raises UsageError if the plan was made for
        another dataset, or for other files."""
        told = self.description
        if dataset.dataset_id != told.dataset_id:
            raise UsageError(
                f"{self.path}: dataset.id is {told.dataset_id}, that of {dataset.directory} is "
                f"{dataset.dataset_id}; allowed: the dataset that the plan was made for"
            )
        samples = samples_below(dataset, told.under)
        if (len(samples.records), samples.total_bytes) != (told.files, told.total_bytes):
            raise UsageError(
                f"{self.path}: dataset.files is {told.files:,}, of {told.total_bytes:,} bytes; "
                f"allowed: {len(samples.records):,} of {samples.total_bytes:,} bytes, those below "
                f"{told.under!r} in {dataset.directory}"
            )
        return samples

    def close(self) -> None:
        """Closes the file."""
        self._container.close()

    def __enter__(self) -> PlanFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
