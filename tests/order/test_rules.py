"""Orders that follow from the files alone."""

from __future__ import annotations

import stat

import numpy as np
import pytest

from fanstore.foresight.order.history import Rules
from fanstore.policy.orders.other_frameworks import dali_random_shuffle, rotating_shard

# The root, train and val, ten classes in each, then 50 files in each class.
PARENTS = [0, 0, 0, *[1] * 10, *[2] * 10, *np.repeat(np.arange(3, 23), 50)]
RECORDS = np.zeros(len(PARENTS), [("parent", "<u4"), ("mode", "<u2")])
RECORDS["parent"] = PARENTS
RECORDS["mode"] = stat.S_IFDIR
RECORDS["mode"][23:] = stat.S_IFREG
TRAIN = np.arange(23, 523, dtype=np.uint32)


def rules() -> Rules:
    return Rules(lambda: RECORDS)


@pytest.mark.parametrize("first", [0, 100, 470])
def test_the_listing_of_a_directory(first: int) -> None:
    found = rules().order_of(np.roll(TRAIN, -first)[:400])
    assert found is not None and found.tolist() == np.roll(TRAIN, -first).tolist()


@pytest.mark.parametrize("rank", range(4))
def test_the_shuffle_of_dali_from_shard_to_shard(rank: int) -> None:
    order = TRAIN[next(dali_random_shuffle(500))]
    epochs = [rotating_shard(order, rank, 4, epoch=epoch) for epoch in range(4)]
    found = rules().order_of(epochs[0])
    assert found is not None and found.tolist() == np.concatenate(epochs).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_other_orders_follow_no_rule(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(TRAIN)
    known = rules()
    assert known.order_of(order[:64]) is None
    assert known.order_of(TRAIN[:63]) is None


def test_few_files_need_no_rule() -> None:
    assert rules().order_of(np.tile(np.arange(23, 73, dtype=np.uint32), 2)) is None
