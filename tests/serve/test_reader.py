"""Opens of a program that announces nothing, as the daemon takes them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from fanstore.foresight.order.follow import Expected
from fanstore.foresight.order.history import Rules
from fanstore.foresight.recorded import RecordedReader
from fanstore.foresight.sink import Sink


class NoRules(Rules):
    """Explains no opens."""

    def __init__(self) -> None:
        pass

    def order_of(self, opened: object) -> None:
        return None


class Bounded(Sink):
    """Is told of no more epochs than what was opened can explain."""

    def __init__(self) -> None:
        self.told = 0

    def begin(self, expected: Expected, behind: int = 0) -> int:
        self.told += 1
        assert self.told < 10_000, "a reader goes from epoch to epoch, and takes no open"
        return self.told


@pytest.mark.parametrize("seed", range(3, 9))
def test_rounds_with_gaps_are_followed_to_their_end(seed: int) -> None:
    """Opens that nobody saw, as of a full lane, make rounds of other lengths."""
    chance, at = random.Random(seed), 0
    reader = RecordedReader(0, 300, 1 << 21, [], NoRules(), Bounded())
    order = np.array(sorted(range(300), key=str), np.uint64)
    for _ in range(60):
        count = chance.choice([1, 5, 30, 64, 100, 300, 700, 1500])
        reader.note(order[(at + np.arange(count)) % 300])
        at += count + chance.choice([0, 0, 0, 7, 200, 1700])
    reader.end()


def epochs_of(*loaders: tuple[int, list[int]], late: int) -> tuple[int, int]:
    """Returns how many opens were expected, and how often an order was given up, if loaders tell
    that they begin after `late` opens."""
    reader = RecordedReader(0, 600, 1 << 21, [], NoRules(), Bounded())
    for number, (loader, opened) in enumerate(loaders):
        told = 0 if number == 0 else late
        reader.note(np.array(opened[:told], np.uint64))
        reader.begins(loader)
        for at in range(told, len(opened), 20):
            reader.note(np.array(opened[at : min(at + 20, len(opened))], np.uint64))
    reader.end()
    _, predicted, _, broken = reader.counts().tolist()
    return predicted, broken


@pytest.mark.parametrize("late", [0, 7])
def test_a_loader_that_tells_when_it_begins_is_expected_to_read_as_before(late: int) -> None:
    rng = np.random.default_rng(1)
    train, held = rng.permutation(300).tolist(), (300 + rng.permutation(200)).tolist()
    assert epochs_of((1, train), (1, train), (1, train), late=late) == (600, 0)
    both = [(1, train), (2, held)] * 3
    predicted, broken = epochs_of(*both, late=late)
    assert predicted >= 1000 - 4 * late and broken == 0
    shuffled = [(1, rng.permutation(300).tolist()) for _ in range(6)]
    predicted, broken = epochs_of(*shuffled, late=late)
    assert predicted < 100 and broken == 1  # one guess, and no other after it
