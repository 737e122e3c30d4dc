"""The next epochs of loaders, as the sink hears of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from fanstore.foresight.next_epochs import Coming
from fanstore.foresight.order.follow import Expected
from fanstore.foresight.order.samplers import samples
from fanstore.foresight.sink import Sink

TRAIN, VAL = (7, 0), (7, 1)


class Told(Sink):
    """Notes what it is told: the orders that are begun and not ended, and what each is behind."""

    def __init__(self) -> None:
        self.begun = 0
        self.orders: dict[int, list[int]] = {}
        self.behind: dict[int, int] = {}

    def begin(self, expected: Expected, behind: int = 0) -> int:
        self.begun += 1
        self.orders[self.begun] = expected.records.tolist()
        self.behind[self.begun] = behind
        return self.begun

    def end(self, token: int) -> None:
        del self.orders[token]


def distributed(seed: int) -> dict[str, Any]:
    return {
        "kind": "DistributedSampler", "samples": 40, "seed": seed, "shuffle": True, "pads": True,
        "rank": 0, "world_size": 2, "batch": 1, "drop_last": False,
    }  # fmt: skip


SEQUENTIAL = {"kind": "SequentialSampler", "samples": 5, "batch": 1, "drop_last": False}


def expect(order: Any) -> list[Expected]:
    return [Expected(mount, order.astype(np.uint64) + 100 * mount) for mount in (0, 1)]


class Loaders:
    """A process with loaders."""

    def __init__(self) -> None:
        self.told = Told()
        self.coming = Coming(self.told)
        self._current: dict[tuple[int, int], list[int]] = {}

    def begin(self, key: tuple[int, int], said: dict[str, Any]) -> list[int]:
        """One of them begins an epoch; the tokens of it."""
        for token in self._current.pop(key, []):
            self.told.end(token)
        tokens = self.coming.take(key, expect(samples(said, {})))
        self.coming.foresee(key, said, {}, expect, tokens)
        self._current[key] = tokens
        return tokens


def test_an_epoch_that_was_foreseen_is_not_begun_again() -> None:
    process = Loaders()
    first = process.begin(TRAIN, distributed(3))
    assert len(process.told.orders) == 4  # this epoch and the next, of two mounts
    coming = sorted(process.told.orders)[2:]
    assert [process.told.behind[each] for each in coming] == first
    assert process.begin(TRAIN, distributed(4)) == coming
    assert len(process.told.orders) == 4 and process.told.begun == 6


def test_one_that_was_foreseen_otherwise_is_ended() -> None:
    process = Loaders()
    process.begin(TRAIN, distributed(3))
    again = process.begin(TRAIN, distributed(3))  # without set_epoch
    assert process.told.orders[again[0]] == samples(distributed(3), {}).tolist()
    assert process.begin(TRAIN, distributed(3)) not in (again, [])
    assert len(process.told.orders) == 4


def test_loaders_that_take_turns_are_behind_each_other() -> None:
    process = Loaders()
    process.begin(TRAIN, distributed(0))
    process.begin(VAL, SEQUENTIAL)
    begun = process.told.begun
    for epoch in range(1, 4):
        train = process.begin(TRAIN, distributed(epoch))
        val = process.begin(VAL, SEQUENTIAL)
        assert max(train + val) <= begun  # both were foreseen
        begun = process.told.begun
        next_train, next_val = sorted(process.told.orders)[-4:-2], sorted(process.told.orders)[-2:]
        assert [process.told.behind[each] for each in next_train] == val
        assert [process.told.behind[each] for each in next_val] == next_train


def test_a_process_that_ends_is_forgotten() -> None:
    process = Loaders()
    tokens = process.begin(TRAIN, distributed(0))
    process.coming.forget(lambda pid: pid == TRAIN[0])
    assert sorted(process.told.orders) == tokens
    assert process.begin(VAL, SEQUENTIAL)


def test_what_makes_no_epoch_is_not_foreseen() -> None:
    process = Loaders()
    process.begin(TRAIN, distributed(2**64 - 1))
    assert len(process.told.orders) == 2
