"""Predicts how much of a dataset a job could stage on nodes like this one."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from fanstore.dataset import INDEX_NAME, Dataset, open_dataset, pack_name
from fanstore.staging.base import StagingFolder
from fanstore.staging.budget import Budget
from fanstore.staging.local_dir import LocalDirectory
from fanstore.staging.resident import resident_bytes
from fanstore.staging.room import for_tables, less, less_tables, room_of
from fanstore.staging.shares import divide
from fanstore.staging.staged import ExpectedFile, StagedDirectory, kept_of_others, others_words
from fanstore.startup import World
from fanstore.wording import counted, show_bytes


@dataclass(frozen=True)
class Forecast:
    """The space that a dataset needs, and how much of the dataset fits on a node.

    index_fits: the index fits; no job can begin without it. fits: all packs fit, too. kept_bytes:
    bytes of packs that fit here; there_bytes: bytes of the dataset that earlier jobs left on the
    disk; nodes: how many nodes like this one hold all packs together, None if the largest file fits
    on none. memory_bytes: the limit on memory; cache_bytes: the part of it for the block cache;
    staged_bytes: the part for staged files. others_bytes: bytes of other datasets that earlier jobs
    left."""

    name: str
    files: int
    packs: int
    pack_bytes: int
    index_bytes: int
    local_dir: str
    index_fits: bool
    fits: bool
    kept_bytes: int
    there_bytes: int
    nodes: int | None
    memory_bytes: int
    cache_bytes: int
    staged_bytes: int
    others_bytes: int


def forecast(
    path: str, directory: LocalDirectory, local_bytes: int | None, budget: Budget
) -> Forecast:
    """Returns a forecast for the dataset at `path`, computed from the present room and the packs
    that earlier jobs left. Raises FanstoreError if there is no dataset."""
    with open_dataset(path) as dataset:
        header = dataset.header
        packs = [dataset.pack_info(pack).file_bytes for pack in range(dataset.pack_count)]
        staged = StagedDirectory(StagingFolder(directory.path), dataset.dataset_id)
        whole = [_is_whole(dataset, staged, pack) for pack in range(len(packs))]
        rest = [0 if here else amount for amount, here in zip(packs, whole, strict=True)]
        whole_bytes = sum(packs) - sum(rest)
        partial_bytes = resident_bytes(staged.path) if os.path.isdir(staged.path) else 0
        index_bytes = 0 if os.path.exists(staged.file(INDEX_NAME)) else int(header.file_bytes)
        free = less(room_of(World(), directory, local_bytes, budget), 0, whole_bytes)
        room = less_tables(free, index_bytes)
        # Partial packs count against the allowed bytes, but this dataset may reuse their room.
        share_bytes = less(room, -partial_bytes, partial_bytes).share_bytes
        records = dataset.records
        regular = (records["mode"] & 0o170000) == stat.S_IFREG
        largest_bytes = int(records["stored_size"][regular].max(initial=0))
        holds = 0 < share_bytes >= largest_bytes
        fits = sum(rest) <= room.bytes
        kept_bytes = whole_bytes + divide(records, rest, [share_bytes], 0).kept_bytes[0]
        here_bytes = int(header.file_bytes) + (sum(packs) if fits else kept_bytes)
        return Forecast(
            dataset.name,
            int(header.file_count),
            len(packs),
            sum(packs),
            int(header.file_bytes),
            directory.path,
            index_bytes <= for_tables(free).bytes,
            fits,
            kept_bytes,
            whole_bytes + partial_bytes,
            -(-sum(packs) // (whole_bytes + share_bytes)) if holds else None,
            budget.limit_bytes,
            budget.cache_bytes,
            here_bytes if directory.in_memory else 0,
            kept_of_others(StagingFolder(directory.path), [dataset.dataset_id]),
        )


def _is_whole(dataset: Dataset, staged: StagedDirectory, pack: int) -> bool:
    """Returns whether an earlier job left a complete copy of a pack."""
    info = dataset.pack_info(pack)
    expected = ExpectedFile(dataset.dataset_id, info.file_bytes, info.checksum)
    return staged.damaged_in(pack_name(pack), expected) is not None


def forecast_lines(found: Forecast) -> list[str]:
    """Returns a forecast as lines of text."""
    lines = [
        f"{found.name}: {counted(found.files, 'file')} in {counted(found.packs, 'pack')}, "
        f"{show_bytes(found.pack_bytes)}, with an index of {show_bytes(found.index_bytes)}"
    ]
    lines += _room_lines(found)
    memory = f"  memory: {show_bytes(found.cache_bytes)} at most for the block cache"
    if found.staged_bytes:
        memory += f", {show_bytes(found.staged_bytes)} for what is staged in {found.local_dir}"
    return [*lines, f"{memory}; {show_bytes(found.memory_bytes)} may be taken"]


def _room_lines(found: Forecast) -> list[str]:
    left = f", where earlier jobs left {show_bytes(found.there_bytes)}"
    there = left if found.there_bytes else ""
    if not found.index_fits:
        what = f"{found.local_dir}: not even the index has room; a job is refused"
        return [f"  does not fit {what}{others_words(found.others_bytes)}"]
    if found.fits:
        return [f"  has room in {found.local_dir}{there}: staged before the command starts"]
    rest_bytes = max(0, found.pack_bytes - found.kept_bytes)
    line = (
        f"  does not fit {found.local_dir}: {show_bytes(found.kept_bytes)} are kept there{there}; "
        f"alone, this node reads {show_bytes(rest_bytes)} from the shared file system in each epoch"
        f"{others_words(found.others_bytes)}"
    )
    if found.nodes is None:
        return [line, "  its largest file has no room on a node like this one"]
    return [line, f"  {found.nodes} nodes like this one hold it together"]
