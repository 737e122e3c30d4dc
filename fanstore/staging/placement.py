"""Decides which ranks keep which packs, and how the packs get there. Pure: no clock, MPI or files.

Rank p mod N owns pack p. The replicas of one rank's packs go to all other ranks in turn, so that
the load of a lost rank does not fall on one neighbour."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

# The share of a rank's room that stays free for outputs and other users if FanStore chooses how
# much to fill.
MARGIN = 0.1


@dataclass(frozen=True)
class Packs:
    """The packs of one dataset: the size of each, and whether every rank keeps it."""

    file_bytes: tuple[int, ...]
    everywhere: tuple[bool, ...]


@dataclass(frozen=True)
class Transfer:
    """A pack that one rank sends to others over MPI."""

    pack: int
    source: int
    destinations: tuple[int, ...]

    @property
    def members(self) -> tuple[int, ...]:
        """Returns all ranks that take part, including the source."""
        return (self.source, *self.destinations)


@dataclass(frozen=True)
class ExchangePlan:
    """How all ranks get their packs. reads: for each rank, the packs that only it reads from the
    shared file system.

    transfers: the transfers after those reads, in the same order on all ranks."""

    reads: tuple[tuple[int, ...], ...]
    transfers: tuple[Transfer, ...]


def replica_ranks(pack: int, world_size: int, replicas: int) -> tuple[int, ...]:
    """Returns the ranks that keep a pack, its owner first; at most `world_size` of them."""
    owner, further = pack % world_size, min(replicas, world_size) - 1
    others = world_size - 1
    turn = pack // world_size * further
    return (owner, *((owner + 1 + (turn + i) % others) % world_size for i in range(further)))


def place(packs: Packs, world_size: int, replicas: int) -> list[tuple[int, ...]]:
    """Returns for each pack the ranks that keep it, its owner first."""
    return [
        replica_ranks(pack, world_size, world_size if everywhere else replicas)
        for pack, everywhere in enumerate(packs.everywhere)
    ]


def packs_by_rank(ranks_by_pack: Sequence[tuple[int, ...]], world_size: int) -> list[set[int]]:
    """Converts the ranks of each pack to the set of packs of each rank."""
    packs: list[set[int]] = [set() for _ in range(world_size)]
    for pack, ranks in enumerate(ranks_by_pack):
        for rank in ranks:
            packs[rank].add(pack)
    return packs


def ranks_by_pack(
    packs_by_rank: Sequence[AbstractSet[int]], pack_count: int
) -> list[tuple[int, ...]]:
    """Converts the packs of each rank to the ranks of each pack, in ascending order."""
    ranks: list[list[int]] = [[] for _ in range(pack_count)]
    for rank, packs in enumerate(packs_by_rank):
        for pack in packs:
            ranks[pack].append(rank)
    return [tuple(found) for found in ranks]


def exchange_plan(
    have: Sequence[AbstractSet[int]],
    want: Sequence[AbstractSet[int]],
    owners: Sequence[tuple[int, ...]],
) -> ExchangePlan:
    """Plans how each rank r gets the packs want[r], given that it has have[r]. The first owner that
    wants a pack which no rank has reads it from the shared file system; all other packs are sent
    between ranks."""
    reads: list[list[int]] = [[] for _ in have]
    sent = [0 for _ in have]
    holding, asking = ranks_by_pack(have, len(owners)), ranks_by_pack(want, len(owners))
    transfers = []
    for pack, preferred in enumerate(owners):
        wanting = [rank for rank in asking[pack] if pack not in have[rank]]
        if not wanting:
            continue
        if holding[pack]:
            source = min(holding[pack], key=lambda r: (sent[r], r))
        else:
            source = next((r for r in preferred if r in wanting), wanting[0])
            reads[source].append(pack)
            wanting.remove(source)
        if wanting:
            sent[source] += len(wanting)
            transfers.append(Transfer(pack, source, tuple(wanting)))
    return ExchangePlan(tuple(tuple(packs) for packs in reads), _in_rounds(transfers))


def _in_rounds(transfers: Iterable[Transfer]) -> tuple[Transfer, ...]:
    """Orders transfers so that transfers between different ranks run at the same time.

    Each rank goes through the list and takes part in its own transfers. In pack order, a ring of
    transfers would run one by one, since each source first waits for what it receives."""
    busy: dict[int, int] = {}  # rank: one bit for each round in which it takes part
    rounds: list[tuple[int, Transfer]] = []
    for transfer in transfers:
        taken = 0
        for rank in transfer.members:
            taken |= busy.get(rank, 0)
        first_free = ~taken & (taken + 1)
        for rank in transfer.members:
            busy[rank] = busy.get(rank, 0) | first_free
        rounds.append((first_free.bit_length(), transfer))
    return tuple(transfer for _, transfer in sorted(rounds, key=lambda pair: pair[0]))
