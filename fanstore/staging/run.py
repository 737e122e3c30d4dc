"""Stages the datasets of a job on all its ranks, and describes the result.

The ranks exchange lists of the packs that they have and the room that they have; each then works
out the same plan. First every rank reads its own share from the shared file system, then the ranks
send each other the replicas (`exchange`). With --stage plan or lazy, a job starts with the packs
that were kept: all others are divided among the ranks record by record (`shares`), and the node
daemons fill them while the job runs. No replicas are made of those.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from fanstore._native import lib
from fanstore.buckets.bucket import Bucket
from fanstore.config import Settings
from fanstore.dataset import Dataset, pack_name
from fanstore.errors import FanstoreError
from fanstore.staging.base import StagingFolder
from fanstore.staging.budget import Budget
from fanstore.staging.crew import Crew
from fanstore.staging.exchange import Exchange
from fanstore.staging.index import DatasetInfo, stage_index
from fanstore.staging.local_dir import LocalDirectory
from fanstore.staging.placement import (
    ExchangePlan,
    Packs,
    exchange_plan,
    packs_by_rank,
    place,
    ranks_by_pack,
)
from fanstore.staging.resident import make_resident, resident_bytes, resident_of
from fanstore.staging.room import (
    DiskRoom,
    Needs,
    check_rooms,
    for_tables,
    less,
    less_tables,
    of_shared_memory,
    room_of,
    room_problems,
    size,
    spoken,
)
from fanstore.staging.shares import PAGE_BYTES, Shares, divide
from fanstore.staging.stage import Stager, StageReport
from fanstore.staging.staged import StagedDirectory, kept_of_others
from fanstore.startup import World

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_SEGMENT_BITS = 3  # for each record in the job's segment
# Partial packs of an earlier job are kept if at least this part of their bytes belongs to this
# rank's share.
_WORTH_KEEPING = 0.5


@dataclass(frozen=True)
class PackPlace:
    """How this rank gets a pack. state: a fan_place_state; replicas: the other ranks that have the
    whole pack."""

    state: int
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True)
class StagedDataset:
    """The result of staging one dataset, for this rank.

    replicas: the copies of each pack, R of --replicas; places, staged_ranks: by pack; shares: of
    the packs that ranks keep in part, None if there are none. note: a message for users, or ""."""

    dataset: Dataset
    report: StageReport
    replicas: int
    places: tuple[PackPlace, ...]
    staged_ranks: tuple[tuple[int, ...], ...]
    shares: Shares | None = None
    note: str = ""


@dataclass
class _Part:
    """A dataset that is being staged. held[r]: the packs that rank r has; want[r]: the packs that
    it is to get; owners: for each pack, the ranks that are to keep it; resident_bytes[r]: the size
    of rank r's partial packs."""

    name: str
    staged: StagedDirectory
    stager: Stager
    packs: Packs
    held: list[set[int]]
    want: list[set[int]]
    owners: list[tuple[int, ...]]
    resident_bytes: list[int]

    def bytes_of(self, packs: set[int]) -> int:
        return sum(self.packs.file_bytes[pack] for pack in packs)


def stage_datasets(
    crew: Crew,
    datasets: Sequence[tuple[DatasetInfo, StagedDirectory]],
    directory: LocalDirectory,
    settings: Settings,
    budget: Budget,
    buckets: Mapping[int, Bucket] = MappingProxyType({}),
) -> list[StagedDataset]:
    """Stages datasets. `datasets` has, for each dataset, the result of `announce` and the held
    directory. buckets: of the datasets that are in one, by number.

    All ranks call it with the same datasets in the same order; a dataset that is listed twice is
    staged once. Raises FanstoreError if they do not fit (with --stage full) or the disk is full;
    DatasetDamaged for a damaged index, or a pack with a wrong header or trailer; OSError."""
    try:
        room = room_of(crew.world, directory, settings.local_bytes, budget)
        own = [info.dataset_id for info, _ in datasets]
        room = replace(room, others_bytes=kept_of_others(StagingFolder(directory.path), own))
        return _stage_datasets(crew, datasets, room, settings, buckets)
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        who = spoken(crew.world.rank, os.uname().nodename, crew.world.world_size)
        raise FanstoreError(
            f"{who}{error.filename}: {error.strerror} while staging; somebody else fills the "
            "disk: use another --local-dir, --stage plan or --in-place"
        ) from error


def _stage_datasets(
    crew: Crew,
    datasets: Sequence[tuple[DatasetInfo, StagedDirectory]],
    room: DiskRoom,
    settings: Settings,
    buckets: Mapping[int, Bucket],
) -> list[StagedDataset]:
    opened: dict[str, _Part] = {}
    for number, (info, staged) in enumerate(datasets):
        if info.dataset_id not in opened:
            dataset, written = stage_index(crew, info, staged, for_tables(room))
            room = less_tables(room, written + dataset.header.record_count * _SEGMENT_BITS // 8)
            dataset.bucket = buckets.get(number)
            opened[info.dataset_id] = _part_of(crew, dataset, staged)
    parts = list(opened.values())
    rooms = of_shared_memory(_tell_held(crew, parts, room, settings.verify))
    replicas = _replicas(len(rooms), settings)
    for part in parts:
        part.owners = place(part.packs, crew.world.world_size, replicas)
    needs = _needs_of_all(parts, rooms)
    is_planned = any(part.stager.dataset.is_planned for part in parts)
    if not is_planned and _is_full(settings, rooms, needs):
        made = _stage_full(crew, parts, rooms, needs, replicas)
        made = _with_copies(crew, parts, made, rooms, settings)
    else:
        made = _stage_partial(crew, parts, rooms, settings)
    outcomes = dict(zip(opened, made, strict=True))
    return [outcomes[info.dataset_id] for info, _ in datasets]


def _copies(settings: Settings, room: DiskRoom, ranks: int) -> bool:
    """Returns whether a rank copies what others have while the job runs. A directory in memory has
    no room to spare: programs need it."""
    spares = settings.replicas == "auto" and settings.stage != "lazy"
    return spares and ranks > 1 and room.memory_bytes is None


def _is_full(settings: Settings, rooms: Sequence[DiskRoom], needs: Sequence[Needs]) -> bool:
    """Returns whether all packs are staged before the command starts. Also True if the user asked
    for replicas: if these do not fit, the job is refused rather than run without them."""
    if settings.stage in ("auto", "memory"):
        return settings.replicas not in ("1", "auto") or not room_problems(rooms, needs)
    return settings.stage == "full"


def _part_of(crew: Crew, dataset: Dataset, staged: StagedDirectory) -> _Part:
    infos = [dataset.pack_info(pack) for pack in range(dataset.pack_count)]
    packs = Packs(
        tuple(info.file_bytes for info in infos), tuple(info.everywhere for info in infos)
    )
    return _Part(dataset.name, staged, Stager(dataset, crew), packs, [], [], [], [])


def _tell_held(crew: Crew, parts: list[_Part], room: DiskRoom, verify: bool) -> list[DiskRoom]:
    """Sends all ranks the packs that this rank has and its room. Returns the rooms of all ranks."""
    own = [_held(crew, part, verify) for part in parts]
    resident = [resident_bytes(part.staged.path) for part in parts]
    kept = sum(part.bytes_of(held) for part, held in zip(parts, own, strict=True))
    room = less(room, 0, kept)
    answers: list[tuple[DiskRoom, list[set[int]], list[int]]]
    answers = crew.world.gather_all((room, own, resident))
    for number, part in enumerate(parts):
        part.held = [held[number] for _, held, _ in answers]
        part.resident_bytes = [amount[number] for _, _, amount in answers]
    return [room for room, _, _ in answers]


def _held(crew: Crew, part: _Part, verify: bool) -> set[int]:
    """Returns the packs that earlier jobs left on this rank. If `verify`, checks their content now,
    otherwise while the job runs."""
    found = {}
    for pack in range(len(part.packs.file_bytes)):
        damaged = part.staged.damaged_in(pack_name(pack), part.stager.expected(pack))
        if damaged is not None:
            found[pack] = damaged
    if verify:
        crew.expect(part.bytes_of(set(found)))
        for pack in found:
            crew.submit(_is_sound, crew, part, pack)
        answers = dict(zip(tuple(found), crew.settle(), strict=True))
        found = {pack: damaged for pack, damaged in found.items() if answers[pack]}
    for pack, damaged in found.items():
        part.stager.note(pack, damaged, "reused")
    part.stager.report.unchecked = [] if verify else list(found)
    return set(found)


def _is_sound(crew: Crew, part: _Part, pack: int) -> bool:
    """Returns whether a kept copy of a pack has the right checksum. If not, removes it."""
    name = pack_name(pack)
    if part.stager.is_sound(pack, part.staged.file(name)):
        return True
    part.staged.forget(name, crew.check)
    return False


def _replicas(ranks: int, settings: Settings) -> int:
    """Returns how many ranks keep each pack before the command starts."""
    if settings.replicas in ("auto", "all"):
        return 1 if settings.replicas == "auto" else ranks
    return min(int(settings.replicas), ranks)


def _needs_of_all(parts: list[_Part], rooms: list[DiskRoom]) -> list[Needs]:
    """Sets which packs each rank is to get if everything is staged. Returns (dataset, bytes) pairs
    for each rank."""
    for part in parts:
        keep = packs_by_rank(part.owners, len(rooms))
        part.want = [packs - held for packs, held in zip(keep, part.held, strict=True)]
    return [[(p.name, p.bytes_of(p.want[r.rank])) for p in parts] for r in rooms]


def _stage_full(
    crew: Crew, parts: list[_Part], rooms: list[DiskRoom], needs: list[Needs], replicas: int
) -> list[StagedDataset]:
    check_rooms(crew.world, rooms, needs)
    crew.expect(sum(amount for _, amount in needs[crew.world.rank]))
    plans = [exchange_plan(part.held, part.want, part.owners) for part in parts]
    _read_share(crew, parts, plans)
    for part, plan in zip(parts, plans, strict=True):
        fresh = [pack for packs in plan.reads for pack in packs]
        Exchange(crew, part.stager, part.staged, fresh).run(plan.transfers)
    _tell_damage(crew.world, parts)  # only now have all ranks received their packs
    return [_full_outcome(crew.world.rank, part, replicas) for part in parts]


def _tell_damage(world: World, parts: list[_Part]) -> None:
    """Adds the damage that other ranks found to every rank's report. A rank asks other ranks for
    such files, and does not read them from the shared file system, where the damage comes from."""
    answers = world.gather_all([part.stager.report.damaged for part in parts])
    for number, part in enumerate(parts):
        own = part.held[world.rank] | part.want[world.rank]
        found: dict[int, set[int]] = {}
        for damaged in (answer[number] for answer in answers):
            for pack in damaged.keys() - own:
                found.setdefault(pack, set()).update(damaged[pack])
        part.stager.report.damaged |= {pack: sorted(ids) for pack, ids in found.items()}


def _read_share(crew: Crew, parts: list[_Part], plans: list[ExchangePlan]) -> None:
    for part, plan in zip(parts, plans, strict=True):
        for pack in plan.reads[crew.world.rank]:
            crew.submit(part.stager.stage_pack, part.staged, pack)
    crew.settle()


def _with_copies(
    crew: Crew,
    parts: list[_Part],
    made: list[StagedDataset],
    rooms: list[DiskRoom],
    settings: Settings,
) -> list[StagedDataset]:
    """Lets packs that only other ranks have come to this rank's disk file by file, as far as it has
    room."""
    ranks, rank = len(rooms), crew.world.rank
    room = _of_one_rank(rooms)[rank]
    if not _copies(settings, room, ranks):
        return made
    left_bytes = room.share_bytes - sum(part.bytes_of(part.want[rank]) for part in parts)
    for number, part in enumerate(parts):
        others = set(range(len(part.owners))) - part.held[rank] - part.want[rank]
        header = part.stager.dataset.header
        most = part.bytes_of(others) + header.record_count * PAGE_BYTES
        bytes_here = min(left_bytes, most)
        if not others or bytes_here <= 0:
            continue
        left_bytes -= bytes_here
        make_resident(part.staged.path, header.record_count, header.pack_count, crew.check)
        partial = int(lib.FAN_PLACE_PARTIAL)
        places = [
            replace(place, state=partial) if pack in others else place
            for pack, place in enumerate(made[number].places)
        ]
        nobody = (0,) * (ranks + 1)
        shares = Shares(nobody, nobody, 0, (), nobody[1:], nobody[1:], 0, 0, copy_bytes=bytes_here)
        made[number] = replace(made[number], places=tuple(places), shares=shares)
    return made


def _of_one_rank(rooms: list[DiskRoom]) -> list[DiskRoom]:
    """Returns the rooms after dividing each file system among its ranks."""
    sharers = Counter((room.node, room.device) for room in rooms)
    return [room.shared_among(sharers[room.node, room.device]) for room in rooms]


def _full_outcome(rank: int, part: _Part, replicas: int) -> StagedDataset:
    have = [held | want for held, want in zip(part.held, part.want, strict=True)]
    staged_ranks = ranks_by_pack(have, len(part.owners))
    places = [_place(rank, ranks) for ranks in staged_ranks]
    return StagedDataset(
        part.stager.dataset, part.stager.report, replicas, tuple(places), tuple(staged_ranks)
    )


def _place(rank: int, ranks: tuple[int, ...]) -> PackPlace:
    others = tuple(other for other in ranks if other != rank)
    state = lib.FAN_PLACE_STAGED if rank in ranks else lib.FAN_PLACE_REMOTE
    return PackPlace(int(state), others)


def _stage_partial(
    crew: Crew, parts: list[_Part], rooms: list[DiskRoom], settings: Settings
) -> list[StagedDataset]:
    """Divides the packs that no rank has whole among the ranks, without copying anything."""
    rooms = _of_one_rank(rooms)
    for part in parts:  # the size of resident records counts against allowed_bytes
        rooms = [less(room, 0, part.resident_bytes[room.rank]) for room in rooms]
    made = []
    for part in parts:
        shares = _share_of(crew, part, rooms, settings)
        if shares is not None:
            taken = zip(shares.kept_bytes, part.resident_bytes, strict=True)
            more = [max(0, kept - resident) for kept, resident in taken]
            rooms = [less(room, more[room.rank]) for room in rooms]
            kept = shares.memory_kept_bytes
            rooms = [replace(r, cache_bytes=r.cache_bytes - kept[r.rank]) for r in rooms]
            own = rooms[crew.world.rank]
            if _copies(settings, own, len(rooms)):
                copy_bytes = min(own.share_bytes, shares.covered_bytes)
                shares = replace(shares, copy_bytes=copy_bytes)
                rooms[crew.world.rank] = less(own, copy_bytes)
        made.append(_partial_outcome(crew.world.rank, part, shares))
    return made


def _share_of(crew: Crew, part: _Part, rooms: list[DiskRoom], settings: Settings) -> Shares | None:
    """Divides the packs of a dataset that no rank has whole; None if there are none. The room of
    its partial packs counts as free."""
    holders = ranks_by_pack(part.held, len(part.owners))
    pairs = zip(part.packs.file_bytes, holders, strict=True)
    amounts = [0 if ranks else amount for amount, ranks in pairs]
    if not any(amounts):
        return None
    rank, dataset, resident = crew.world.rank, part.stager.dataset, part.resident_bytes
    rooms = [less(room, -resident[room.rank]) for room in rooms]
    most_bytes = int(lib.FAN_FILL_MAX_BYTES) if settings.stage == "lazy" else None
    if len(rooms) == 1:
        # no other rank would read it from this one's cache
        rooms = [replace(rooms[0], cache_bytes=0)]
    fits = [room.share_bytes for room in rooms]
    memory = [room.cache_bytes for room in rooms]
    shares = divide(dataset.records, amounts, fits, rank, most_bytes, memory)
    _drop_what_is_of_no_share(crew, part, shares)
    header = dataset.header
    make_resident(part.staged.path, header.record_count, header.pack_count, crew.check)
    return shares


def _drop_what_is_of_no_share(crew: Crew, part: _Part, shares: Shares) -> None:
    """Removes partial packs that an earlier job filled by other shares: they would use up this
    job's room. Keeps them if a running job uses them."""
    kept_bytes = part.resident_bytes[crew.world.rank]
    if kept_bytes == 0:
        return
    own = shares.own[resident_of(part.staged.path, shares.own)]
    sizes = part.stager.dataset.records["stored_size"]
    if int(sizes[own].sum()) < kept_bytes * _WORTH_KEEPING:
        part.staged.forget_partial(crew.check)


def _partial_outcome(rank: int, part: _Part, shares: Shares | None) -> StagedDataset:
    staged_ranks = ranks_by_pack(part.held, len(part.owners))
    partial = PackPlace(int(lib.FAN_PLACE_PARTIAL))
    places = [_place(rank, ranks) if ranks else partial for ranks in staged_ranks]
    note = ""
    if shares is not None and shares.covered_bytes < shares.needed_bytes:
        in_memory = sum(shares.memory_kept_bytes)
        more = f", {size(in_memory)} in the block caches" if in_memory else ""
        is_far = part.stager.dataset.bucket is not None
        where = "the bucket" if is_far else "the shared file system"
        note = (
            f"{part.name}: {size(shares.covered_bytes)} of {size(shares.needed_bytes)} have room "
            f"on the local disks{more}; the rest is read from {where} whenever it is in no cache"
        )
    return StagedDataset(
        part.stager.dataset, part.stager.report, 1, tuple(places), tuple(staged_ranks), shares, note
    )


def check_in_place(crew: Crew, dataset: Dataset, verify: bool) -> StagedDataset:
    """Checks a dataset that is read in place: its headers, and all content if `verify`. The ranks
    divide the work. Raises as `Stager.check_pack` does."""
    stager, world = Stager(dataset, crew), crew.world
    share = range(world.rank, dataset.pack_count, world.world_size)
    if verify:
        crew.expect(sum(stager.expected(pack).file_bytes for pack in share))
    for pack in share:
        crew.submit(stager.check_pack, pack, verify)
    crew.settle()
    for damaged in world.gather_all(stager.report.damaged):
        stager.report.damaged |= damaged
    places = (PackPlace(int(lib.FAN_PLACE_IN_PLACE)),) * dataset.pack_count
    return StagedDataset(dataset, stager.report, 0, places, ((),) * dataset.pack_count)
