"""Samplers that only their own code knows: what they will draw is seen, and never drawn."""

from __future__ import annotations

import array
import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fanstore.in_job import rows
from fanstore.in_job.draws import Draws

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")

_ORDER = random.Random(5).sample(range(200), 101)


class Shaped:
    """A sampler with a body of one's own."""

    def __init__(self, body: Callable[[Any], Any]) -> None:
        self.order = list(_ORDER)
        self.body = body

    def __iter__(self) -> Any:
        return iter(self.body(self))


class Cursor:
    """An iterator that is a class."""

    def __init__(self, order: list[int]) -> None:
        self.inner = iter(order)

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> int:
        return next(self.inner)


class Resumed:
    """An iterator that goes on in the middle of a list."""

    def __init__(self, order: list[int]) -> None:
        self.order, self.at = order, 30

    def __iter__(self) -> Resumed:
        return self

    def __next__(self) -> int:
        self.at += 1
        if self.at > len(self.order):
            raise StopIteration
        return self.order[self.at - 1]


def yielding(order: Any) -> Any:
    for each in order:
        yield int(each)


def delegating(order: Any) -> Any:
    yield from yielding(order)


def numbered(sampler: Any) -> Any:
    for at in range(len(sampler.order)):
        yield sampler.order[at]


SEEN: dict[str, Callable[[Any], Any]] = {
    "list": lambda sampler: list(_ORDER),
    "tuple": lambda sampler: tuple(_ORDER),
    "array": lambda sampler: np.array(_ORDER),
    "tensor": lambda sampler: torch.tensor(_ORDER),
    "range": lambda sampler: range(3, 150, 2),
    "falling": lambda sampler: range(90, 1, -1),
    "yielding": lambda sampler: yielding(list(_ORDER)),
    "yielding-tensor": lambda sampler: yielding(torch.tensor(_ORDER)),
    "delegating": lambda sampler: delegating(list(_ORDER)),
    "mapped": lambda sampler: map(int, map(np.int64, _ORDER)),
    "expression": lambda sampler: (each for each in list(_ORDER)),
    "sliced": lambda sampler: itertools.islice(list(_ORDER), 1, None, 3),
    "numbered": numbered,
    "cursor": lambda sampler: Cursor(list(_ORDER)),
    "resumed": lambda sampler: Resumed(list(_ORDER)),
    "cycle": lambda sampler: itertools.islice(itertools.chain(list(_ORDER)), 90),
}


def pieces_of(index_sampler: Any) -> tuple[list[int], list[dict[str, Any]], list[list[int]]]:
    """Draws an epoch; returns what was drawn, and what was told of it."""
    draws = Draws(rows, "Shaped", 0, getattr(index_sampler, "drop_last", False))
    drawn: list[int] = []
    told = []
    iterator = iter(index_sampler)
    for each in iterator:
        drawn += [each] if isinstance(each, int) else [int(one) for one in each]
        told.append(draws.take(iterator, each))
    told.append(draws.rest())
    found = [piece for piece in told if piece is not None]
    indices = [array.array("q", piece[1]["indices"]).tolist() for piece in found]
    return drawn, [piece[0] for piece in found], indices


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("drop_last", [False, True])
def test_rows_are_seen_with_the_first_batch(name: str, drop_last: bool) -> None:
    batches = data.BatchSampler(Shaped(SEEN[name]), 8, drop_last)
    drawn, samplers, indices = pieces_of(batches)
    assert drawn == [index for batch in batches for index in batch]  # nothing was lost
    assert (samplers[0]["place"], samplers[0]["name"]) == ("first", "Shaped, its indices")
    told = indices[0] if name != "cycle" else indices[0][: len(drawn)]
    assert told[: len(drawn)] == drawn
    assert name == "cycle" or (told == drawn and len(indices) == 1)


BATCHED: dict[str, Callable[[Any], Any]] = {
    "lists": lambda sampler: [_ORDER[at : at + 7] for at in range(0, 101, 7)],
    "yielded": lambda sampler: yielding_batches([_ORDER[at : at + 7] for at in range(0, 101, 7)]),
    "arrays": lambda sampler: np.array_split(np.array(_ORDER), 9),
    "tensors": lambda sampler: torch.tensor(_ORDER).split(7),
    "slices": lambda sampler: (sampler.order[at : at + 7] for at in range(0, 101, 7)),
}


def yielding_batches(batches: Any) -> Any:
    yield from batches


@pytest.mark.parametrize("name", BATCHED)
def test_batches_of_ones_own_are_seen(name: str) -> None:
    drawn, samplers, indices = pieces_of(Shaped(BATCHED[name]))
    assert indices == [drawn] == [_ORDER]
    assert samplers[0]["name"] == "Shaped, its indices"


def larger_batches(row: Any, part: slice) -> Any:
    """Yields a rank's part of each, as Megatron's samplers do."""
    larger = []
    for index in row:
        larger.append(index)
        if len(larger) == 12:
            yield larger[part]
            larger = []


@pytest.mark.parametrize("row", [_ORDER[:96], range(5, 101), range(900, 708, -2)])
@pytest.mark.parametrize("part", [slice(4), slice(4, 8), slice(8, 12), slice(1, 12, 3)])
def test_a_part_of_each_larger_batch_is_seen_with_the_second(row: Any, part: slice) -> None:
    drawn, samplers, indices = pieces_of(Shaped(lambda sampler: larger_batches(row, part)))
    assert indices == [drawn[:4], drawn[4:]]
    said = [(each["place"], each["name"]) for each in samplers]
    assert said == [("first", "Shaped, as drawn"), ("more", "Shaped, its indices")]


def ends_of_batches(sampler: Any) -> Any:
    """Yields the last indices of batches of many sizes."""
    larger = []
    for index in range(5000):
        larger.append(index)
        if index % 17 in (0, 9, 13):
            yield larger[-3:]
            larger = []


def part_of_each_range(sampler: Any) -> Any:
    for begin in range(0, 5000, 100):
        for index in range(begin, 5000):
            if index == begin + 70:
                break
            yield index


@pytest.mark.parametrize(
    "sampler",
    [Shaped(ends_of_batches), data.BatchSampler(Shaped(part_of_each_range), 7, False)],
)
def test_what_is_told_wrong_is_bounded(sampler: Any) -> None:
    drawn, samplers, indices = pieces_of(sampler)
    assert sum(map(len, indices)) <= len(drawn) + 2 * 5000
    assert 1 <= [each["place"] for each in samplers].count("instead") <= 2


def test_each_of_many_rows_is_seen() -> None:
    _, samplers, _ = pieces_of(data.BatchSampler(Shaped(chunks), 20, False))
    assert [each["name"] for each in samplers] == ["Shaped, its indices"] * 10


def chunks(sampler: Any) -> Any:
    for at in range(0, 1000, 100):
        yield from random.Random(at).sample(range(at, at + 100), 100)


def drawn_one_by_one(sampler: Any) -> Any:
    for each in _ORDER:
        yield (each * 7) % 101


def other_end(sampler: Any) -> Any:
    order = list(_ORDER)
    yield from order[:20]
    for at in range(20, 100):
        yield order[119 - at]


def changing(sampler: Any) -> Any:
    order = list(range(100))
    for each in order:
        yield each
        if each == 40:
            order[50:] = reversed(order[50:])


@pytest.mark.parametrize("body", [chunks, drawn_one_by_one, other_end, changing])
@pytest.mark.parametrize("batch_size", [1, 8, 30])
def test_what_is_told_is_what_is_drawn(body: Any, batch_size: int) -> None:
    """Whatever the shape: nothing drawn is left out, and what was told wrong is told anew."""
    drawn, samplers, indices = pieces_of(data.BatchSampler(Shaped(body), batch_size, False))
    right = 0
    told: list[int] = []
    for sampler, piece in zip(samplers, indices, strict=True):
        if sampler["place"] == "instead":
            right += _common(told, drawn[right:])
            told = []
        told += piece
    assert told == drawn[-len(told) :]
    assert len(drawn) - len(told) <= right
    assert samplers[0]["place"] == "first"


def _common(one: list[int], two: list[int]) -> int:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, two, strict=False))
    return len(list(same))


@pytest.mark.parametrize(
    "odd", ["a name", ["a", "b"], [(1, 2)], [1.5], None, {"a": 1}, [2**70], object()]
)
def test_what_are_no_indices_is_left_alone(odd: Any) -> None:
    draws = Draws(rows, "Odd", 0, False)
    assert draws.take(iter([odd]), odd) is None
    assert draws.take(iter([1]), [1]) is None
    assert draws.rest() is None


def test_what_workers_are_ahead_is_told_at_once() -> None:
    draws = Draws(rows, "Odd", 3, False)
    told = [draws.take(iter(()), [number, number]) for number in range(3)]
    assert told[:2] == [None, None]
    assert told[2] is not None
    assert array.array("q", told[2][1]["indices"]).tolist() == [0, 0, 1, 1, 2, 2]


def test_a_busy_daemon_is_told_anew() -> None:
    draws = Draws(rows, "Odd", 1, False)
    assert draws.take(iter(()), [1]) is not None
    draws.dropped()
    draws.take(iter(()), [2])
    sampler, parts = draws.rest() or ({}, {})
    assert (sampler["place"], parts["indices"]) == ("instead", array.array("q", [2]).tobytes())
