"""Where packs go and how they get there: pure functions, over many random cases."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from fanstore.staging.placement import (
    ExchangePlan,
    Packs,
    exchange_plan,
    packs_by_rank,
    place,
    ranks_by_pack,
    replica_ranks,
)

SIZES = [1, 2, 3, 4, 5, 8, 13]


@pytest.mark.parametrize("world_size", SIZES)
def test_replicas_lie_on_as_many_different_ranks_as_asked_for(world_size: int) -> None:
    for replicas in range(1, world_size + 3):
        for pack in range(5 * world_size):
            ranks = replica_ranks(pack, world_size, replicas)
            assert ranks[0] == pack % world_size
            assert len(set(ranks)) == len(ranks) == min(replicas, world_size)
            assert all(0 <= rank < world_size for rank in ranks)


@pytest.mark.parametrize("world_size", SIZES)
def test_every_rank_keeps_the_same_when_partitions_are_a_multiple(world_size: int) -> None:
    for replicas in range(1, world_size + 1):
        for rounds in (1, 2, 3, 7):
            packs = Packs((10,) * rounds * world_size, (False,) * rounds * world_size)
            assert load_bytes(packs, world_size, replicas) == [10 * rounds * replicas] * world_size


@pytest.mark.parametrize("world_size", [3, 4, 5, 8, 13])
def test_the_load_of_a_lost_rank_is_spread(world_size: int) -> None:
    for replicas in range(2, world_size):
        # So many packs of rank 0 that each other rank can have the same number of them.
        packs = range(0, world_size * (world_size - 1), world_size)
        taken = Counter(r for p in packs for r in replica_ranks(p, world_size, replicas)[1:])
        assert set(taken) == set(range(1, world_size))
        assert max(taken.values()) == min(taken.values()) == replicas - 1


def load_bytes(packs: Packs, world_size: int, replicas: int) -> list[int]:
    """How many bytes each rank keeps."""
    loads = [0] * world_size
    for amount, ranks in zip(packs.file_bytes, place(packs, world_size, replicas), strict=True):
        for rank in ranks:
            loads[rank] += amount
    return loads


def test_packs_for_everywhere_lie_on_all_ranks() -> None:
    packs = Packs((5, 7, 9), (False, True, False))
    owners = place(packs, 4, 2)
    assert [len(ranks) for ranks in owners] == [2, 4, 2]
    assert owners[1][0] == 1
    assert all(1 in packs for packs in packs_by_rank(owners, 4))
    assert sum(load_bytes(packs, 4, 2)) == 2 * 5 + 4 * 7 + 2 * 9


def test_the_two_views_of_a_placement_are_each_others_inverse() -> None:
    owners = place(Packs((1,) * 30, (False,) * 30), 7, 3)
    by_rank = packs_by_rank(owners, 7)
    assert by_rank[2] == {pack for pack in range(30) if 2 in owners[pack]}
    assert ranks_by_pack(by_rank, 30) == [tuple(sorted(ranks)) for ranks in owners]


def simulate(
    plan: ExchangePlan, have: list[set[int]], want: list[set[int]]
) -> tuple[list[Counter[int]], Counter[int]]:
    """What arrives at each rank, and how often each pack is read. Only what is there is sent."""
    held = [set(packs) for packs in have]
    arrived = [Counter[int]() for _ in have]
    reads = Counter[int]()
    for rank, packs in enumerate(plan.reads):
        reads.update(packs)
        arrived[rank].update(packs)
        held[rank] |= set(packs)
    for transfer in plan.transfers:
        assert transfer.pack in held[transfer.source], "sent before it was there"
        for rank in transfer.destinations:
            arrived[rank][transfer.pack] += 1
            held[rank].add(transfer.pack)
    for rank, packs in enumerate(want):
        assert packs <= held[rank]
    return arrived, reads


def test_every_wanted_pack_arrives_once_and_is_read_once_at_most() -> None:
    draw = random.Random(11)
    for _ in range(500):
        world_size, count = draw.randint(1, 7), draw.randint(0, 20)
        chance = draw.choice([0.0, 0.2, 0.9])
        owners = place(
            Packs((1,) * count, tuple(draw.random() < 0.2 for _ in range(count))),
            world_size,
            draw.randint(1, world_size),
        )
        ranks = range(world_size)
        have = [{p for p in range(count) if draw.random() < chance} for _ in ranks]
        kept = packs_by_rank(owners, world_size)
        want = [kept[rank] - have[rank] for rank in ranks]
        for rank in ranks:  # too little room: some are left out
            want[rank] = {p for p in want[rank] if draw.random() < 0.9}
        plan = exchange_plan(have, want, owners)
        arrived, reads = simulate(plan, have, want)
        for rank in ranks:
            assert arrived[rank] == Counter(want[rank])
        nobody_has = set(range(count)) - set().union(*have)
        assert set(reads) <= nobody_has
        assert set(reads.values()) <= {1}
        assert set(reads) == nobody_has & set().union(*want)


@pytest.mark.parametrize("world_size", SIZES)
def test_reads_and_sends_are_balanced(world_size: int) -> None:
    for replicas in range(1, world_size + 1):
        count = 4 * world_size
        owners = place(Packs((1,) * count, (False,) * count), world_size, replicas)
        want = packs_by_rank(owners, world_size)
        plan = exchange_plan([set()] * world_size, want, owners)
        assert {len(packs) for packs in plan.reads} == {4}
        sends = Counter(t.source for t in plan.transfers for _ in t.destinations)
        assert max(sends.values(), default=0) - min(sends.values(), default=0) <= 1


def test_kept_copies_of_several_ranks_are_sent_by_turns() -> None:
    owners = place(Packs((1,) * 12, (True,) * 12), 4, 1)
    kept = set(range(12))
    plan = exchange_plan([kept, kept, set(), set()], [set(), set(), kept, kept], owners)
    assert Counter(t.source for t in plan.transfers) == {0: 6, 1: 6}
    assert plan.reads == ((), (), (), ())


def test_transfers_of_different_ranks_go_side_by_side() -> None:
    owners = place(Packs((1,) * 8, (False,) * 8), 8, 2)
    want = packs_by_rank(owners, 8)
    plan = exchange_plan([set()] * 8, want, owners)
    first = [rank for transfer in plan.transfers[:4] for rank in transfer.members]
    assert len(plan.transfers) == 8
    assert sorted(first) == list(range(8))


def test_the_order_does_not_depend_on_who_asks() -> None:
    draw = random.Random(3)
    owners = place(Packs((1,) * 30, (False,) * 30), 5, 3)
    have = [{p for p in range(30) if draw.random() < 0.3} for _ in range(5)]
    want = [k - h for k, h in zip(packs_by_rank(owners, 5), have, strict=True)]
    shuffled = [set(sorted(packs, key=lambda _: draw.random())) for packs in have]
    assert exchange_plan(have, want, owners) == exchange_plan(shuffled, want, owners)
