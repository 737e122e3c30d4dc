"""Access orders, against what the frameworks gave."""

from __future__ import annotations

import zlib
from itertools import islice
from typing import Any

import numpy as np
import pytest
from golden_orders import GOLDEN, Golden

from fanstore.policy.orders import shuffles
from fanstore.policy.orders import torch_samplers as randperms
from fanstore.policy.orders.distributed_samplers import batch_sampler_shard
from fanstore.policy.orders.generators import Mt19937
from fanstore.policy.orders.other_frameworks import rotating_shard
from fanstore.policy.orders.registry import ORDERS, orders, strided
from fanstore.policy.orders.torch_samplers import randperm

# What each order needs, at its smallest.
NEEDED: dict[str, dict[str, Any]] = {
    "dali-shuffle": {},
    "grain-shuffle": {"seed": 1},
    "sequential": {},
    "tf-data-shuffle": {"seed": 1, "buffer_size": 10},
    "timm-repeat-aug": {"world_size": 1},
    "torch-distributed": {"world_size": 1},
    "torch-generator": {"seed": 1},
    "torch-random": {"seed": 1},
    "torch-subset-random": {"seed": 1},
    "torch-weighted-random": {"seed": 1},
}


def needed(name: str, sample_count: int) -> dict[str, Any]:
    """What an order of so many samples needs."""
    weights = {"weights": np.arange(1, sample_count + 1)} if name == "torch-weighted-random" else {}
    return {**NEEDED[name], **weights}


SUBSET, WEIGHTED = {"seed": 1, "indices": [3, 1]}, {"seed": 1, "weights": [1, 0, 2] + [0] * 7}
BUFFER = NEEDED["tf-data-shuffle"]
TWO = {"world_size": 2}


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: f"{g.order}-{g.sample_count}-{g.epoch}")
def test_golden(golden: Golden) -> None:
    order = next(orders(golden.order, golden.sample_count, golden.epoch, **golden.parameters))
    assert order.dtype == np.uint32
    assert (order[:8].tolist(), order[-8:].tolist()) == (golden.head, golden.tail)
    assert zlib.crc32(order.astype("<u4").tobytes()) == golden.crc


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("sample_count", (1, 2, 3, 101))
def test_an_epoch_reads_every_sample(name: str, sample_count: int) -> None:
    of = needed(name, sample_count)
    if name == "torch-weighted-random":
        of["replacement"] = False
    if name == "timm-repeat-aug":
        of["num_repeats"] = 1
    for order in islice(orders(name, sample_count, **of), 3):
        assert np.array_equal(np.sort(order), np.arange(sample_count))


@pytest.mark.parametrize("name", ORDERS)
def test_epochs_may_begin_anywhere(name: str) -> None:
    begun = islice(orders(name, 101, **needed(name, 101)), 5)
    later = islice(orders(name, 101, 3, **needed(name, 101)), 2)
    for one, other in zip(list(begun)[3:], later, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("name", ORDERS)
def test_no_epoch_changes_another(name: str) -> None:
    begun, again = (orders(name, 101, **needed(name, 101)) for _ in range(2))
    order = next(begun)
    if order.flags.writeable:
        order[:] = 0
    next(again)
    assert np.array_equal(next(begun), next(again))


def test_the_largest_seed_is_taken_where_no_epoch_is_added() -> None:
    of = {"world_size": 2, "seed": 2**64 - 1}
    for more in ({"set_epoch": False}, {"shuffle": False}):
        assert len(list(islice(orders("torch-distributed", 10, **of, **more), 2))) == 2


@pytest.mark.parametrize("replacement", (False, True))
@pytest.mark.parametrize("num_samples", (30, 101, 202, 250))
@pytest.mark.parametrize("name", ("torch-random", "torch-generator"))
def test_samplers_of_other_lengths_may_begin_anywhere(
    name: str, num_samples: int, replacement: bool
) -> None:
    of = {"seed": 4, "num_samples": num_samples, "replacement": replacement}
    begun = list(islice(orders(name, 101, **of), 3))
    assert all(len(order) == num_samples for order in begun)
    assert np.array_equal(begun[2], next(orders(name, 101, 2, **of)))


def test_repeats_stand_side_by_side_and_the_head_of_them_is_read() -> None:
    order = next(orders("timm-repeat-aug", 600, world_size=4)).tolist()
    expected = np.repeat(randperm(600, 0), 3)[:512]  # two times 256
    assert order == expected.tolist()
    alone = next(orders("timm-repeat-aug", 10, world_size=4, num_repeats=1, selected_round=0))
    assert alone.tolist() == [*randperm(10, 0), *randperm(10, 0)[:2]]


def test_a_subset_reads_its_samples_alone() -> None:
    for order in islice(orders("torch-subset-random", 10, seed=1, indices=[7, 3, 9]), 3):
        assert sorted(order.tolist()) == [3, 7, 9]


@pytest.mark.parametrize("drawn", (1, 30, 250))
@pytest.mark.parametrize("between", (0, 2, 5))
def test_weighted_epochs_may_begin_anywhere(drawn: int, between: int) -> None:
    of = {**needed("torch-weighted-random", 101), "num_samples": drawn, "words_between": between}
    begun = list(islice(orders("torch-weighted-random", 101, **of), 3))
    assert all(len(order) == drawn for order in begun)
    assert np.array_equal(begun[2], next(orders("torch-weighted-random", 101, 2, **of)))


def test_samples_without_weight_are_never_drawn() -> None:
    weights = np.arange(101) % 2
    order = next(orders("torch-weighted-random", 101, seed=3, weights=weights, num_samples=5000))
    assert set(order.tolist()) == set(range(1, 101, 2))
    counts = np.bincount(order)[1::2]
    assert abs(counts.mean() - 100) < 1
    assert counts.max() < 200


def test_grain_leaves_the_last_sample_out_where_grain_does() -> None:
    order = next(orders("grain-shuffle", 65537, seed=0))
    assert np.setdiff1d(np.arange(65537), order).tolist() == [65536]


@pytest.mark.parametrize("world_size", (1, 2, 3, 8))
@pytest.mark.parametrize("drop_last", (False, True))
def test_ranks_of_a_distributed_sampler_read_as_many(world_size: int, drop_last: bool) -> None:
    order = next(orders("torch-distributed", 101, world_size=world_size, drop_last=drop_last))
    reads = [strided(order, rank, world_size) for rank in range(world_size)]
    each = 101 // world_size if drop_last else -(-101 // world_size)
    assert [len(of_rank) for of_rank in reads] == [each] * world_size
    expected = randperm(101, 0).tolist()
    assert np.stack(reads, axis=1).ravel().tolist() == (expected + expected)[: each * world_size]


# What accelerate's BatchSamplerShard gives of [0, 1, ... 9] to two ranks, batches of 3.
@pytest.mark.parametrize(
    ("options", "expected"),
    (
        ({}, [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 0, 1]]),
        ({"drop_last": True}, [[0, 1, 2], [3, 4, 5]]),
        ({"even_batches": False}, [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9]]),
    ),
)
def test_batch_sampler_shard(options: dict[str, bool], expected: list[list[int]]) -> None:
    order = np.arange(10)
    found = [batch_sampler_shard(order, rank, 2, batch_size=3, **options) for rank in range(2)]
    assert [reads.tolist() for reads in found] == expected


def test_batch_sampler_shard_of_few_samples() -> None:
    found = [batch_sampler_shard(np.arange(10), r, 3, batch_size=3).tolist() for r in range(3)]
    assert found == [[0, 1, 2, 9, 0, 1], [3, 4, 5, 2, 3, 4], [6, 7, 8, 5, 6, 7]]
    found = [batch_sampler_shard(np.arange(3), r, 2, batch_size=4).tolist() for r in range(2)]
    assert found == [[0, 1, 2, 0], [1, 2, 0, 1]]


def test_many_samples_are_permuted_with_words_of_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randperms, "_WORDS_OF_64_BITS_FROM", 100)
    for count, words in ((99, 98), (100, 200), (101, 202)):
        assert randperms.randperm_words(count) == words
        drawn, skipped = Mt19937(3), Mt19937(3)
        order = randperms.drawn_randperm(count, drawn)
        skipped.skip(words)
        assert drawn.take(1) == skipped.take(1)
        form = shuffles.front if count < 100 else shuffles.inside_out
        assert np.array_equal(order, form(count, Mt19937(3)))


def test_shards_rotate() -> None:
    order = np.array([5, 9, 1, 6, 7, 2, 0, 4, 8, 3])  # of DALI, ten files
    found = [rotating_shard(order, 3, 4, epoch=epoch).tolist() for epoch in range(3)]
    assert found == [[4, 8, 3], [5, 9], [1, 6, 7]]
    assert rotating_shard(order, 3, 4, epoch=1, stick_to_shard=True).tolist() == [4, 8, 3]


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    (
        ("random", {}, "order is 'random'; allowed are dali-shuffle, grain-shuffle,"),
        ("sequential", {"seed": 1}, "no parameter 'seed'; allowed are none"),
        ("grain-shuffle", {}, "needs the parameter 'seed'; allowed are seed"),
        ("grain-shuffle", {"seed": 2**32}, "seed is 4294967296; allowed are integers, 0 to"),
        ("torch-random", {"seed": 0.5}, "seed is 0.5; allowed are integers"),
        ("torch-random", {"seed": True}, "seed is True; allowed are integers"),
        ("torch-random", {"seed": 1, "words_per_epoch": 1}, "words_per_epoch is 1; allowed"),
        ("torch-random", {"seed": 1, "num_samples": 0}, "num_samples is 0; allowed"),
        ("torch-random", {"seed": 1, "replacement": "no"}, "replacement is 'no'; allowed are true"),
        ("torch-distributed", {**TWO, "drop_last": "false"}, "drop_last is 'false'; allowed are"),
        ("torch-distributed", {**TWO, "shuffle": 1}, "shuffle is 1; allowed are true and false"),
        ("torch-distributed", {**TWO, "set_epoch": None}, "set_epoch is None; allowed are true"),
        ("torch-distributed", {**TWO, "seed": 2**64 - 1}, r"seed \+ first_epoch is .*; allowed"),
        ("tf-data-shuffle", {**BUFFER, "reshuffle_each_iteration": 0}, "iteration is 0; allowed"),
        (
            "timm-repeat-aug",
            {**TWO, "num_repeats": 1.5},
            "num_repeats is 1.5; allowed are integers",
        ),
        ("timm-repeat-aug", {"world_size": 11, "selected_round": 5}, "world_size is 11; .*1 to 10"),
        ("torch-distributed", {"world_size": 0}, "world_size is 0; allowed are integers, 1 or"),
        ("torch-subset-random", {"seed": 1, "indices": []}, "the number of indices is 0; allowed"),
        ("torch-subset-random", {"seed": 1, "indices": [10]}, "indices has samples 10 to 10 of 10"),
        ("torch-subset-random", {**SUBSET, "words_between": -1}, "words_between is -1; allowed"),
        ("torch-weighted-random", {"seed": 1}, "needs the parameter 'weights'; allowed are seed"),
        ("torch-weighted-random", {"seed": 1, "weights": [1]}, r"int64\(1,\); allowed is one"),
        ("torch-weighted-random", {"seed": 1, "weights": [-1.0] * 10}, "weights go from -1.0 to"),
        ("torch-weighted-random", {"seed": 1, "weights": [0] * 10}, "weights go from 0.0 to 0.0"),
        ("torch-weighted-random", {**WEIGHTED, "num_samples": 0}, "num_samples is 0; allowed"),
        ("torch-weighted-random", {**WEIGHTED, "replacement": False}, "is 10; allowed .*1 to 2"),
        ("tf-data-shuffle", {"seed": 1, "buffer_size": 0}, "buffer_size is 0; allowed"),
    ),
)
def test_bad_arguments_are_refused_at_once(
    name: str, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        orders(name, 10, **parameters)


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize(("sample_count", "first_epoch"), ((0, 0), (2**32, 0), (10, -1)))
def test_bad_counts_are_refused_at_once(name: str, sample_count: int, first_epoch: int) -> None:
    with pytest.raises(ValueError, match="allowed are integers"):
        orders(name, sample_count, first_epoch, **needed(name, 10))


def test_many_samples_are_refused_with_replacement() -> None:
    with pytest.raises(ValueError, match="with replacement is 268435456; allowed are"):
        orders("torch-random", 2**28, seed=1, num_samples=1, replacement=True)


def test_ranks_are_checked() -> None:
    order = np.arange(10)
    with pytest.raises(ValueError, match="rank is 2; allowed are integers, 0 to 1"):
        strided(order, 2, 2)
    with pytest.raises(ValueError, match="batch_size is 0"):
        batch_sampler_shard(order, 0, 2, batch_size=0)
    with pytest.raises(ValueError, match="epoch is -1"):
        rotating_shard(order, 0, 2, epoch=-1)
