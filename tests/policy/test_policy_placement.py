"""Placements: never over capacity, nothing idle, and each what its paper says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fanstore.policy import checks
from fanstore.policy.orders.registry import orders
from fanstore.policy.placement.by_frequency import by_frequency, by_frequency_partitioned
from fanstore.policy.placement.rules import (
    NOBODY,
    NOWHERE,
    checked_capacities,
    fastest_elsewhere,
    fill,
    first_touch,
    local_reads,
    partition,
)

Array = Any
RNG = np.random.default_rng(15)


def counts_of(ranks: int, files: int) -> Array:
    return RNG.binomial(20, 1 / ranks, (ranks, files)).astype(np.uint16)


def shards_of(ranks: int, files: int) -> list[Array]:
    order = RNG.permutation(files)
    return [order[rank::ranks] for rank in range(ranks)]


def everywhere(sizes_bytes: Array, capacities_bytes: Array) -> Array:
    """Each rank fills its classes with files in the order of the listing."""
    sizes = checks.sizes("sizes_bytes", sizes_bytes)
    files = np.arange(len(sizes))
    return np.stack([fill(sizes, files, each) for each in checked_capacities(capacities_bytes)])


POLICIES: dict[str, Callable[[Array, Array], Array]] = {
    "everywhere": everywhere,
    "first_touch": lambda s, c: first_touch(s, shards_of(len(c), len(s)), c),
    "by_frequency": lambda s, c: by_frequency(s, counts_of(len(c), len(s)), c),
    "by_frequency_partitioned": lambda s, c: by_frequency_partitioned(
        s, counts_of(len(c), len(s)), c
    ),
    "partition": lambda s, c: partition(s, RNG.permutation(len(s)), c),
}


def used(sizes: Array, classes: Array, capacities: Array) -> Array:
    """Bytes by rank and class."""
    return np.stack([(classes == c) @ sizes for c in range(capacities.shape[1])], axis=1)


@pytest.mark.parametrize("case", range(12))
@pytest.mark.parametrize("policy", POLICIES)
def test_no_class_is_over_its_capacity(policy: str, case: int) -> None:
    ranks, classes, files = case % 4 + 1, case % 3 + 1, (0, 1, 50, 300)[case % 4]
    sizes = RNG.integers(0, 1000, files)
    capacities = RNG.integers(0, 40_000, (ranks, classes))
    capacities[0, 0] = (0, 5, 10**9)[case % 3]
    capacities[-1, -1] += 1
    found = POLICIES[policy](sizes, capacities)
    assert (found.dtype, found.shape) == (np.uint8, (ranks, files))
    assert (used(sizes, found, capacities) <= capacities).all()
    assert set(np.unique(found)) <= {*range(classes), NOWHERE}


@pytest.mark.parametrize("policy", ("everywhere", "by_frequency", "by_frequency_partitioned"))
def test_no_capacity_is_idle_while_there_is_more(policy: str) -> None:
    sizes = RNG.integers(1, 1000, 500)
    capacities = np.array([[20_000, 30_000], [10_000, 50_000], [1_000, 2_000]])
    found = POLICIES[policy](sizes, capacities)
    free = capacities.sum(axis=1) - used(sizes, found, capacities).sum(axis=1)
    assert (free < 2 * 1000).all()
    assert (found[:, 0] < 3).all() or policy != "everywhere"


@pytest.mark.parametrize("policy", ("first_touch", "partition"))
def test_some_policies_keep_each_file_once(policy: str) -> None:
    sizes = RNG.integers(1, 1000, 500)
    found = POLICIES[policy](sizes, np.full((3, 2), 10**6))
    assert ((found != NOWHERE).sum(axis=0) == 1).all()


def test_classes_are_filled_fastest_first() -> None:
    assert everywhere([4, 3, 2, 1], [[5, 5], [4, 0]]).tolist() == [
        [0, 1, 1, NOWHERE],
        [0, NOWHERE, NOWHERE, NOWHERE],
    ]
    # What a class can never take does not stand in the way of what follows.
    assert everywhere([9, 3, 2], [[4, 9]]).tolist() == [[1, 0, NOWHERE]]


def test_frequency_keeps_what_is_read_most_often() -> None:
    counts = np.array([[1, 5, 3, 4], [4, 0, 2, 1]], dtype=np.uint16)
    found = by_frequency([1, 1, 1, 1], counts, [[1, 2], [1, 2]])
    assert found.tolist() == [[NOWHERE, 0, 1, 1], [0, NOWHERE, 1, 1]]


@pytest.mark.parametrize("ranks", (1, 2, 4, 16))
def test_partition_by_frequency_leaves_no_file_out(ranks: int) -> None:
    files = 3200
    sizes = np.full(files, 7)
    counts = counts_of(ranks, files)
    found = by_frequency_partitioned(sizes, counts, np.full((ranks, 1), 7 * files // ranks))
    assert ((found != NOWHERE).sum(axis=0) == 1).all()
    found = by_frequency_partitioned(sizes, counts, np.full((ranks, 1), 7 * files // ranks // 2))
    assert (found != NOWHERE).any(axis=0).sum() == files // ranks // 2 * ranks


def test_partition_by_frequency_covers_more_than_frequency_alone() -> None:
    sizes = RNG.integers(1, 1000, 4000)
    counts = counts_of(8, 4000)
    capacities = np.full((8, 2), sizes.sum() // 15)  # 16 / 15 of the dataset
    alone = (by_frequency(sizes, counts, capacities) != NOWHERE).any(axis=0)
    found = by_frequency_partitioned(sizes, counts, capacities)
    assert sizes[alone].sum() < 0.85 * sizes.sum()
    assert (found != NOWHERE).any(axis=0).all()
    kept = [counts[rank][found[rank] != NOWHERE].mean() for rank in range(8)]
    assert min(kept) > counts.mean()
    fast = [counts[rank][found[rank] == 0].mean() for rank in range(8)]
    slow = [counts[rank][found[rank] == 1].mean() for rank in range(8)]
    assert min(fast) > max(slow)


@pytest.mark.parametrize(("part", "least"), ((1, 1.7), (0.5, 2.0), (0.25, 2.3)))
def test_partition_by_frequency_is_good_for_every_rank(part: float, least: float) -> None:
    sizes = np.full(4000, 7)
    counts = counts_of(8, 4000)
    found = by_frequency_partitioned(sizes, counts, np.full((8, 1), int(sizes.sum() * part / 8)))
    kept = np.array([counts[rank][found[rank] != NOWHERE].mean() for rank in range(8)])
    assert kept.min() > 0.93 * kept.mean()
    assert kept.min() > least * counts.mean()


def test_partition_by_frequency_of_ranks_that_differ() -> None:
    sizes = np.full(100, 10)
    counts = counts_of(3, 100)
    found = by_frequency_partitioned(sizes, counts, [[600], [0], [400]])
    assert ((found != NOWHERE).sum(axis=1)).tolist() == [60, 0, 40]
    assert (found != NOWHERE).any(axis=0).all()
    found = by_frequency_partitioned(sizes, counts, [[9], [1000], [9]])
    assert ((found != NOWHERE).sum(axis=1)).tolist() == [0, 100, 0]


def test_partition_by_frequency_goes_on_after_a_file_that_is_too_large() -> None:
    sizes = [1500] + [100] * 25
    counts = np.array([[9] + [1] * 25, [2] + [5] * 25], dtype=np.uint8)
    found = by_frequency_partitioned(sizes, counts, [[1000], [2000]]) != NOWHERE
    assert found[:, 1:].any(axis=0).all()  # of 3000 bytes 2500 are used: the large one fits nowhere
    counts[1, 0] = 7
    found = by_frequency_partitioned(sizes, counts, [[1000], [2000]]) != NOWHERE
    assert found[1, 0] and found.any(axis=0).sum() == 16  # 1500 + 5 * 100 on one, 10 on the other


def test_first_touch_is_by_turn() -> None:
    found = first_touch([1] * 5, [[0, 1, 4], [1, 2, 0]], [[9], [9]])
    assert found.tolist() == [[0, NOWHERE, NOWHERE, NOWHERE, 0], [NOWHERE, 0, 0, NOWHERE, NOWHERE]]


def test_partition_is_in_proportion() -> None:
    order = RNG.permutation(100)
    found = partition([10] * 100, order, [[100, 200], [0, 0], [100, 0]])
    assert np.flatnonzero(found[0] != NOWHERE).tolist() == sorted(order[:30].tolist())
    assert np.flatnonzero(found[0] == 0).tolist() == sorted(order[:10].tolist())
    assert (found[1] == NOWHERE).all()
    assert np.flatnonzero(found[2] == 0).tolist() == sorted(order[75:85].tolist())


@pytest.mark.parametrize("drop_last", (False, True))
def test_partition_keeps_each_file_of_a_padded_and_of_a_short_order_once(drop_last: bool) -> None:
    order = next(orders("torch-distributed", 10, world_size=4, drop_last=drop_last))
    assert len(order) == (8 if drop_last else 12)
    found = partition([10] * 10, order, [[50], [50]])
    assert ((found != NOWHERE).sum(axis=0) == 1).all()
    assert np.flatnonzero(found[0] != NOWHERE).tolist() == sorted(order[:5].tolist())


@pytest.mark.parametrize("ranks", (1, 2, 3, 6))
def test_fastest_elsewhere(ranks: int) -> None:
    classes = RNG.choice([0, 1, 2, NOWHERE], (ranks, 200)).astype(np.uint8)
    found = fastest_elsewhere(classes)
    assert found.dtype == np.uint8
    for rank in range(ranks):
        others = np.delete(classes, rank, axis=0)
        assert np.array_equal(found[rank], others.min(axis=0, initial=NOWHERE))


def slowly_local(order: list[int], keepers: list[int], ranks: int, batch: int) -> list[list[int]]:
    """The same one by one: a rank's own first, then what is left over, by keeper, in turn."""
    reads: list[list[int]] = [[] for _ in range(ranks)]
    for at in range(0, len(order), ranks * batch):
        step = order[at : at + ranks * batch]
        own = [[s for s in step if keepers[s] == rank] for rank in range(ranks)]
        over = [s for s in step if keepers[s] == NOBODY]
        over += [s for of_rank in own for s in of_rank[batch:]]
        for rank in range(ranks):
            mine = own[rank][:batch]
            missing = batch - len(mine)
            reads[rank] += mine + over[:missing]
            over = over[missing:]
    return reads


@pytest.mark.parametrize(("ranks", "batch"), ((1, 4), (2, 3), (4, 5), (3, 1)))
def test_local_reads(ranks: int, batch: int) -> None:
    files = ranks * batch * 7
    order = RNG.permutation(files)
    keepers = RNG.integers(NOBODY, ranks, files)
    found = local_reads(order, keepers, ranks, batch)
    assert found.tolist() == slowly_local(order.tolist(), keepers.tolist(), ranks, batch)
    steps = found.reshape(ranks, -1, batch).swapaxes(0, 1).reshape(-1, ranks * batch)
    assert np.array_equal(np.sort(steps), np.sort(order.reshape(-1, ranks * batch)))


@pytest.mark.parametrize("dtype", (np.int8, np.uint8, np.uint64))
def test_local_reads_take_keepers_of_any_integers(dtype: type[np.integer]) -> None:
    order = RNG.permutation(400)
    keepers = RNG.integers(0, 100, 400).astype(dtype)
    found = local_reads(order, keepers, 100, 2)
    assert found.tolist() == slowly_local(order.tolist(), keepers.tolist(), 100, 2)


def test_empty_lists_are_of_integers() -> None:
    assert everywhere([], CAPACITIES).shape == (1, 0)
    assert first_touch(SIZES, [[]], CAPACITIES).tolist() == [[NOWHERE, NOWHERE]]
    assert local_reads([], [], 1, 2).shape == (1, 0)


SIZES, COUNTS, CAPACITIES = [1, 2], np.ones((1, 2), dtype=np.uint8), [[1]]


@pytest.mark.parametrize(
    ("call", "said"),
    (
        (
            lambda: everywhere([-1], CAPACITIES),
            "sizes_bytes are .*; allowed is one row of bytes >= 0",
        ),
        (lambda: everywhere([0.5], CAPACITIES), "sizes_bytes are float64"),
        (lambda: everywhere([2**63 - 1, 1], CAPACITIES), f"sizes_bytes are {2**63} bytes togeth"),
        (lambda: everywhere([2**63], CAPACITIES), f"allowed are up to {2**63 - 1}"),
        (lambda: everywhere(SIZES, [[2**63]]), f"capacities_bytes are {2**63} bytes together"),
        (lambda: partition(SIZES, [0], [[2**62]] * 2), f"capacities_bytes are {2**63} bytes"),
        (lambda: everywhere(SIZES, [1]), "capacities_bytes are .*; allowed are integers, ranks x"),
        (lambda: everywhere(SIZES, [[-1]]), "allowed are 0 bytes and more in up to 255"),
        (lambda: everywhere(SIZES, [[1] * 256]), "in 256 classes; allowed"),
        (lambda: by_frequency(SIZES, COUNTS, [[1], [1]]), "allowed are .* 2 ranks x 2 files"),
        (lambda: by_frequency(SIZES, COUNTS.astype(int), CAPACITIES), "frequencies are int64"),
        (
            lambda: first_touch(SIZES, [[0], [1]], CAPACITIES),
            "reads are of 2 ranks, capacities_bytes",
        ),
        (lambda: partition(SIZES, [2], CAPACITIES), "order has samples 2 to 2 of 2"),
        (lambda: partition(SIZES, [0], [[0]]), "capacities_bytes are all 0"),
        (lambda: local_reads([0], [0, 0], 1, 2), "order has 1 samples; allowed are multiples of 2"),
        (lambda: local_reads([0, 1], [0, 1], 1, 2), "keepers are 0 to 1 of 1 ranks"),
    ),
)
def test_bad_arguments_are_refused(call: Callable[[], Array], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
