"""Checks that the files to stage fit into the local directory's free space, and into memory if it
is a tmpfs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fanstore.errors import FanstoreError
from fanstore.staging.budget import Budget
from fanstore.staging.local_dir import LocalDirectory
from fanstore.staging.placement import MARGIN
from fanstore.staging.staged import others_words
from fanstore.startup import World


@dataclass(frozen=True)
class DiskRoom:
    """The room in one rank's local directory.

    memory_bytes: the memory that may be used, None if the directory is on a disk. allowed_bytes:
    the rest of the limit that the option `allowed_by` sets, None if it was not given. device:
    st_dev of the file system; ranks with the same device share it. others_bytes: the size of
    datasets of earlier jobs that this job does not use. cache_bytes: bytes of its share that the
    rank can keep in its block cache."""

    rank: int
    node: str
    path: str
    free_bytes: int
    memory_bytes: int | None
    allowed_bytes: int | None = None
    allowed_by: str = "--local-bytes"
    device: int = 0
    others_bytes: int = 0
    cache_bytes: int = 0

    @property
    def bytes(self) -> int:
        """The number of bytes that a job may stage here."""
        limits = (self.free_bytes, self.memory_bytes, self.allowed_bytes)
        return max(0, min(limit for limit in limits if limit is not None))

    @property
    def share_bytes(self) -> int:
        """The number of bytes that records may fill while the job runs; outputs need the rest."""
        return max(0, min(self.bytes, int(self.free_bytes * (1 - MARGIN))))

    def shared_among(self, ranks: int) -> DiskRoom:
        """Returns the room of one rank, given that `ranks` ranks share this file system on one
        node."""
        return replace(self, free_bytes=self.free_bytes // ranks)


def room_of(
    world: World, directory: LocalDirectory, local_bytes: int | None, budget: Budget
) -> DiskRoom:
    """Returns the room in this rank's local directory, without the room that kept files take."""
    path, node = directory.path, os.uname().nodename
    device = os.stat(path).st_dev if os.path.isdir(path) else 0
    room = DiskRoom(
        world.rank, node, path, directory.free_bytes, None, local_bytes, device=device,
        cache_bytes=budget.kept_in_cache_bytes,
    )  # fmt: skip
    if not directory.in_memory:
        return room
    rest_bytes = budget.rest_bytes
    if budget.allowed_bytes is None:
        return replace(room, memory_bytes=max(0, rest_bytes - budget.staged_bytes))
    if local_bytes is None or rest_bytes < local_bytes:
        room = replace(room, allowed_bytes=rest_bytes, allowed_by="--memory-bytes")
    taken_bytes = budget.whole_cache_bytes + budget.tables_bytes
    return replace(room, memory_bytes=max(0, budget.available_bytes - taken_bytes))


def of_shared_memory(rooms: Sequence[DiskRoom]) -> list[DiskRoom]:
    """Returns the rooms after dividing the memory of each node among its ranks."""
    ranks = Counter(room.node for room in rooms)
    return [
        room if room.memory_bytes is None
        else replace(room, memory_bytes=room.memory_bytes // ranks[room.node])
        for room in rooms
    ]  # fmt: skip


def less(room: DiskRoom, written_bytes: int, kept_bytes: int = 0) -> DiskRoom:
    """Returns the room after `written_bytes` were written. kept_bytes: size of files that were
    there before: they count only against `allowed_bytes`."""
    memory, allowed = room.memory_bytes, room.allowed_bytes
    return replace(
        room,
        free_bytes=room.free_bytes - written_bytes,
        memory_bytes=None if memory is None else memory - written_bytes,
        allowed_bytes=None if allowed is None else allowed - written_bytes - kept_bytes,
    )


def for_tables(room: DiskRoom) -> DiskRoom:
    """Returns the room for an index, which a job needs in any case: --local-bytes bounds packs."""
    return replace(room, allowed_bytes=None) if room.allowed_by == "--local-bytes" else room


def less_tables(room: DiskRoom, written_bytes: int) -> DiskRoom:
    """Returns the room for packs after `written_bytes` of an index were written."""
    left = less(room, written_bytes)
    is_of_packs = room.allowed_by == "--local-bytes"
    return replace(left, allowed_bytes=room.allowed_bytes) if is_of_packs else left


def spoken(rank: int, node: str, world_size: int) -> str:
    """Returns the words with which a message names a rank; "" if it is the only one."""
    return f"rank {rank} on {node}: " if world_size > 1 else ""


Needs = Sequence[tuple[str, int]]


INSTEAD = "another --local-dir, --stage plan or --in-place"


def check_rooms(
    world: World, rooms: Sequence[DiskRoom], needs: Sequence[Needs], instead: str = INSTEAD
) -> None:
    """Raises FanstoreError if the files to copy do not fit. needs[r]: (dataset, bytes) pairs of
    rank r; instead: advice for the message.

    All ranks call it with the same arguments. If something does not fit, rank 0 raises
    FanstoreError with the figures of every rank; the others end because rank 0 failed."""
    problems = room_problems(rooms, needs, instead)
    if problems:
        if world.rank != 0:
            # raises RankLost when rank 0 fails, which reports the problem once
            world.gather_all(None)
        raise FanstoreError("\n".join(problems))


def room_problems(
    rooms: Sequence[DiskRoom], needs: Sequence[Needs], instead: str = INSTEAD
) -> list[str]:
    """Returns a line of text for each rank on which the files do not fit."""
    pairs = zip(rooms, needs, strict=True)
    found = [(room, _problem(room, needed, instead)) for room, needed in pairs]
    return [spoken(room.rank, room.node, len(rooms)) + words for room, words in found if words]


def _problem(room: DiskRoom, needed: Needs, instead: str) -> str | None:
    total = sum(amount for _, amount in needed)
    needs = f"{size(total)} are needed to stage {_named(needed)}"
    if room.allowed_bytes is not None and total > room.allowed_bytes:
        return (
            f"{needs}, {room.allowed_by} leaves "
            f"{size(max(0, room.allowed_bytes))}; allow more, or use {instead}"
        )
    others = others_words(room.others_bytes)
    if total > room.free_bytes:
        return f"{room.path}: {needs}, {size(room.free_bytes)} are free; use {instead}{others}"
    if room.memory_bytes is not None and total > room.memory_bytes:
        return (
            f"{room.path} is in memory: {needs}, of the memory that is left "
            f"{size(room.memory_bytes)} may be taken (--memory-bytes); use {instead}{others}"
        )
    return None


def _named(needed: Needs) -> str:
    """Returns the names of the datasets as text; if there are several, each with its bytes."""
    some = [(name, amount) for name, amount in needed if amount]
    if len(some) == 1:
        return some[0][0]
    return ", ".join(f"{name} {size(amount)}" for name, amount in some)


def size(amount_bytes: int) -> str:
    """Returns a number of bytes as text, in MiB and in bytes."""
    return f"{amount_bytes / (1 << 20):,.1f} MiB ({amount_bytes:,} bytes)"
