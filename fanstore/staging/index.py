"""Copies the index of a dataset to every rank: one rank reads it from the shared file system and
broadcasts it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fanstore.dataset import INDEX_NAME, Dataset, open_index
from fanstore.errors import DatasetDamaged
from fanstore.staging.crew import Crew
from fanstore.staging.exchange import ReceivedFile, Travel
from fanstore.staging.room import DiskRoom, check_rooms
from fanstore.staging.stage import Stager
from fanstore.staging.staged import ExpectedFile, StagedDirectory
from fanstore.startup import World

OpenIndex = Callable[[str], tuple[Dataset, str]]


@dataclass(frozen=True)
class DatasetInfo:
    """Facts about a dataset that every rank knows before it has the index.

    directory: on the shared file system, absolute, or an address; index_path: the index, in that
    directory or, of what was listed, in rank 0's cache; index: size and checksum of a right copy;
    note: a sentence about the listing, or ""; source: the directory or address that was listed, or
    "".
    """

    name: str
    directory: str
    index_path: str
    dataset_id: str
    codec_mask: int
    index: ExpectedFile
    note: str = ""
    source: str = ""


def announce(world: World, paths: Sequence[str], open_path: OpenIndex) -> list[DatasetInfo]:
    """Opens the datasets on rank 0, which broadcasts the facts about them. open_path: opens the
    index of a path, and returns a note, too. On rank 0, raises as open_path does."""
    infos = [_info_of(*open_path(path)) for path in paths] if world.rank == 0 else []
    told: list[DatasetInfo] = world.broadcast(infos)
    return told


def _info_of(dataset: Dataset, note: str) -> DatasetInfo:
    with dataset:
        header = dataset.header
        expected = ExpectedFile(dataset.dataset_id, header.file_bytes, header.body_checksum)
        directory = dataset.source or os.path.abspath(dataset.directory)
        index_path = os.path.abspath(dataset.index_path)
        return DatasetInfo(
            dataset.name, directory, index_path, dataset.dataset_id, header.codec_mask, expected,
            note, dataset.source,
        )  # fmt: skip


def stage_index(
    crew: Crew, info: DatasetInfo, staged: StagedDirectory, room: DiskRoom
) -> tuple[Dataset, int]:
    """Stages the index on every rank. Returns the dataset, opened from the copy, and the number of
    bytes written.

    All ranks call it, for their datasets in the same order. If any rank still has a copy of an
    earlier job, nothing is read from the shared file system; otherwise rank 0 reads it. Raises
    DatasetDamaged on rank 0 if the checksum is wrong, FanstoreError if the index does not fit on a
    rank."""
    world = crew.world
    is_kept = _is_kept(crew, info, staged)
    answers: list[tuple[bool, DiskRoom]] = world.gather_all((is_kept, room))
    index_bytes = info.index.file_bytes
    needs = [[] if kept else [(info.name, index_bytes)] for kept, _ in answers]
    rooms = [room for _, room in answers]
    check_rooms(world, rooms, needs, "another --local-dir or --in-place")
    holders = [rank for rank, (kept, _) in enumerate(answers) if kept]
    if not holders and world.rank == 0:
        with open_index(Path(info.index_path), Path(info.directory)) as dataset:
            crew.submit(Stager(dataset, crew).stage_index, staged)
            crew.settle()
    if max(1, len(holders)) < world.world_size:
        _broadcast(crew, info, staged, (holders or [0])[0])
    dataset = open_index(Path(staged.file(INDEX_NAME)), Path(info.directory))
    return dataset, 0 if is_kept else index_bytes


def _is_kept(crew: Crew, info: DatasetInfo, staged: StagedDirectory) -> bool:
    """Returns whether this rank has a copy of an earlier job with the right checksum."""
    if staged.damaged_in(INDEX_NAME, info.index) is None:
        return False
    crew.submit(_is_sound, staged.file(INDEX_NAME), info)
    (sound,) = crew.settle()
    if not sound:
        staged.forget(INDEX_NAME, crew.check)
    return bool(sound)


def _is_sound(path: str, info: DatasetInfo) -> bool:
    try:
        open_index(Path(path), Path(info.directory), verify=True).close()
    except DatasetDamaged:
        return False
    return True


def _broadcast(crew: Crew, info: DatasetInfo, staged: StagedDirectory, source: int) -> None:
    """Broadcasts the index from rank `source`. Ranks that have a copy drop the bytes."""
    others = [rank for rank in range(crew.world.world_size) if rank != source]
    travel = Travel(crew, source, others, info.index.file_bytes)
    target = staged.file(INDEX_NAME)
    if crew.world.rank == source:
        travel.send(target)
        return
    received = ReceivedFile(target)
    received.fill(travel)
    crew.submit(_adopt, crew, info, staged, received)
    crew.settle()


def _adopt(crew: Crew, info: DatasetInfo, staged: StagedDirectory, received: ReceivedFile) -> None:
    def copy(part: str) -> list[int]:
        received.become(part)
        open_index(Path(part), Path(info.directory), verify=True).close()
        return []

    try:
        received.sync()
        staged.stage(INDEX_NAME, info.index, copy, crew.check)
    finally:
        received.remove()
