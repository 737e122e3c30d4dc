"""The caches of several nodes, against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from replay import replay

from fanstore.policy.cluster import (
    ELSEWHERE,
    HERE,
    NOWHERE,
    POLICIES,
    WITH_NEXT_USES,
    Cluster,
    NextUses,
)
from fanstore.policy.next_use import NEVER

RNG = np.random.default_rng(5)
NODES, RANKS_PER_NODE, SAMPLES, COLUMNS, EPOCHS = 3, 2, 40, 12, 8


def drawn() -> list[Any]:
    """What the ranks read in some epochs, now and then nothing."""
    return [RNG.integers(0, SAMPLES + 1, (NODES * RANKS_PER_NODE, COLUMNS)) for _ in range(EPOCHS)]


def in_step(epochs: list[Any]) -> list[tuple[int, int, int, int]]:
    """Epoch, rank, column and sample of each read, one after the other."""
    return [
        (number, rank, column, int(reads[rank, column]))
        for number, reads in enumerate(epochs)
        for column in range(reads.shape[1])
        for rank in range(len(reads))
    ]


def place_of(epoch: int, rank: int, column: int) -> int:
    return (epoch * COLUMNS + column) * RANKS_PER_NODE + rank % RANKS_PER_NODE


def foreseen(epochs: list[Any]) -> list[Any]:
    """The next use of each read on its node, looked up one by one."""
    found = [np.full(reads.shape, NEVER, dtype=np.uint32) for reads in epochs]
    later: dict[tuple[int, int], int] = {}
    for epoch, rank, column, sample in reversed(in_step(epochs)):
        if sample < SAMPLES:
            key = rank // RANKS_PER_NODE, sample
            found[epoch][rank, column] = later.get(key, NEVER)
            later[key] = place_of(epoch, rank, column)
    return found


def told(epochs: list[Any]) -> list[Any]:
    """The same, as it is told to caches."""
    coming = NextUses(SAMPLES, NODES, RANKS_PER_NODE, EPOCHS * COLUMNS * RANKS_PER_NODE)
    return [coming.before(reads) for reads in reversed(epochs)][::-1]


def test_next_uses_are_those_of_the_node() -> None:
    epochs = drawn()
    for found, expected in zip(told(epochs), foreseen(epochs), strict=True):
        assert np.array_equal(found, expected)


def plain(
    policy: str, epochs: list[Any], uses: list[Any], sizes: Any, capacity: int, kept: Any
) -> list[Any]:
    """Where each read finds its sample, with tables; a policy that is not drawn at random."""
    held: list[dict[int, int]] = [{} for _ in range(NODES)]  # of each sample what it goes by
    found = [np.full(reads.shape, NOWHERE) for reads in epochs]
    for now, (epoch, rank, column, sample) in enumerate(in_step(epochs)):
        node = rank // RANKS_PER_NODE
        if sample == SAMPLES or kept[node, sample] != 255:
            continue
        own = held[node]
        elsewhere = any(sample in other for other in held if other is not own)
        if sample in own:
            found[epoch][rank, column] = HERE
        elif elsewhere:
            found[epoch][rank, column] = ELSEWHERE
        rate = -int(uses[epoch][rank, column]) if policy in WITH_NEXT_USES else now
        room = capacity - sum(int(sizes[other]) for other in own)
        while sample not in own and own and room < sizes[sample] <= capacity:
            first = min(own, key=lambda other: own[other])
            if policy == "minio" or (policy == "belady" and rate <= own[first]):
                break
            room += int(sizes[first])
            del own[first]
        if sample in own or room >= sizes[sample]:
            own[sample] = rate
    return found


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "random"])
@pytest.mark.parametrize("capacity", (0, 20, 60, 500))
def test_caches_are_what_plain_loops_give(policy: str, capacity: int) -> None:
    sizes = RNG.integers(1, 9, SAMPLES)
    epochs = drawn()
    kept = np.where(RNG.random((NODES, SAMPLES)) < 0.1, 1, 255).astype(np.uint8)
    cluster = Cluster(policy, sizes, capacity, NODES, RANKS_PER_NODE)
    uses = told(epochs)
    for number, coming in enumerate(uses):  # no two are equal, or any of them may go first
        never = np.flatnonzero(coming == NEVER)
        coming.flat[never] = 2**31 + number * coming.size + never
    expected = plain(policy, epochs, uses, sizes, capacity, kept)
    for reads, coming, wanted in zip(epochs, uses, expected, strict=True):
        given = coming if policy in WITH_NEXT_USES else None
        assert np.array_equal(cluster.read(reads, given, kept), wanted)
    assert cluster.peak_bytes <= capacity


@pytest.mark.parametrize("policy", ("lru", "random", "minio", "belady"))
def test_one_node_is_a_replay(policy: str) -> None:
    sizes = RNG.integers(1, 9, SAMPLES)
    reads = RNG.integers(0, SAMPLES, (1, 500))
    coming = NextUses(SAMPLES, 1, 1, 500).before(reads) if policy == "belady" else None
    known = {} if coming is None else {"next_uses": coming[0]}
    found = Cluster(policy, sizes, 70, 1, 1).read(reads, coming)
    assert (found[0] == HERE).tolist() == replay(policy, reads[0], sizes, 70, **known).tolist()


def test_what_others_have_is_found_there_and_dropped_first() -> None:
    reads = np.array([[0, 1], [1, 0]])
    coming = np.array([[NEVER] * 2] * 2, dtype=np.uint32)
    cluster = Cluster("reuse", [5, 5], 10, 2, 1)
    assert cluster.read(reads, coming).tolist() == [[NOWHERE, ELSEWHERE], [NOWHERE, ELSEWHERE]]
    assert cluster.read(reads, coming).tolist() == [[HERE, ELSEWHERE], [HERE, ELSEWHERE]]


def test_what_does_not_go_together_is_refused() -> None:
    cluster = Cluster("lru", [1] * 5, 3, 2, 1)
    with pytest.raises(ValueError, match="policy is 'fifo'; allowed are lru, random"):
        Cluster("fifo", [1], 1, 1, 1)
    with pytest.raises(ValueError, match="nodes is 0; allowed are integers, 1 to 65535"):
        Cluster("lru", [1], 1, 0, 1)
    with pytest.raises(ValueError, match=r"reads are int64\(1, 3\); allowed are integers, 2 rows"):
        cluster.read(np.zeros((1, 3), dtype=np.int64))
    with pytest.raises(ValueError, match="reads have samples 0 to 6 of 5"):
        cluster.read(np.array([[0], [6]]))
    with pytest.raises(ValueError, match="next_uses go with the policies reuse, belady alone"):
        cluster.read(np.zeros((2, 3), dtype=np.int64), np.zeros((2, 3), dtype=np.uint32))
    with pytest.raises(ValueError, match=r"kept are uint8\(2, 4\); allowed is uint8\(2, 5\)"):
        cluster.read(np.zeros((2, 3), dtype=np.int64), kept=np.zeros((2, 4), dtype=np.uint8))
    with pytest.raises(ValueError, match="reads of a node is"):
        NextUses(1, 1, 1, NEVER)
