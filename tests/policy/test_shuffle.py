"""The shuffles in C, against the same in plain Python."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from fanstore.policy.orders import shuffles
from fanstore.policy.orders.generators import Mt19937, seed_seq

COUNTS = (1, 2, 3, 4, 5, 64, 65, 66, 1000)
STRETCH = 37


@pytest.fixture(params=("whole", "stretches"))
def stretches(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "stretches":
        monkeypatch.setattr(shuffles, "_STRETCH_WORDS", STRETCH)


def words(seed: int) -> Iterator[int]:
    """The words of the generator one by one: MT19937 as its authors wrote it down."""
    state = [seed]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + i) & 0xFFFFFFFF)
    while True:
        for i in range(624):
            y = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7FFFFFFF)
            state[i] = state[(i + 397) % 624] ^ (y >> 1) ^ (0x9908B0DF if y & 1 else 0)
        for y in state:
            y ^= y >> 11
            y ^= y << 7 & 0x9D2C5680
            y ^= y << 15 & 0xEFC60000
            yield y ^ y >> 18


@pytest.mark.parametrize("seed", (0, 1, 5489, 2**32 - 1))
def test_generator_draws_the_published_words(seed: int) -> None:
    expected = words(seed)
    generator = Mt19937(seed)
    assert generator.take(1000).tolist() == [next(expected) for _ in range(1000)]
    generator.skip(700)
    for _ in range(700):
        next(expected)
    assert int(generator.take(1)[0]) == next(expected)


def test_generator_takes_the_low_half_of_a_seed() -> None:
    assert Mt19937(5489).take(1)[0] == 3499211612  # the first word of the standard's default seed
    assert Mt19937(2**40 + 5).take(9).tolist() == Mt19937(5).take(9).tolist()
    assert Mt19937(-1).take(9).tolist() == Mt19937(2**32 - 1).take(9).tolist()


@pytest.mark.parametrize("count", COUNTS)
def test_front(count: int, stretches: None) -> None:
    drawn, expected = words(count), list(range(count))
    for i in range(count - 1):
        other = i + next(drawn) % (count - i)
        expected[i], expected[other] = expected[other], expected[i]
    generator = Mt19937(count)
    assert shuffles.front(count, generator).tolist() == expected
    assert int(generator.take(1)[0]) == next(drawn)


@pytest.mark.parametrize("count", COUNTS)
def test_inside_out(count: int, stretches: None) -> None:
    drawn: Iterator[int] = words(count)
    expected: list[int] = []
    for i in range(count):
        other = (next(drawn) << 32 | next(drawn)) % (i + 1)
        expected.append(i)
        expected[i], expected[other] = expected[other], i
    generator = Mt19937(count)
    assert shuffles.inside_out(count, generator).tolist() == expected
    assert int(generator.take(1)[0]) == next(drawn)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("buffer_size", (1, 2, 64, 1000, 5000))
def test_through_buffer(count: int, buffer_size: int) -> None:
    drawn = Mt19937(7).take(count)
    buffer: list[int] = []
    expected, coming = [], iter(range(count))
    for word in drawn.tolist():
        buffer.extend(i for i in [next(coming, -1)] * (len(buffer) < buffer_size) if i >= 0)
        while len(buffer) < buffer_size and (i := next(coming, -1)) >= 0:
            buffer.append(i)
        # What leaves changes places with the oldest place, which the next arrival takes.
        place = word % len(buffer)
        expected.append(buffer[place])
        buffer[place] = buffer[0]
        buffer = buffer[1:]
    assert shuffles.through_buffer(count, buffer_size, drawn).tolist() == expected


@pytest.mark.parametrize("count", (65535, 65536, 70000))
def test_libstdcxx_keeps_every_item(count: int) -> None:
    order = shuffles.libstdcxx(count, Mt19937(1))
    assert np.array_equal(np.sort(order), np.arange(count))


def test_libstdcxx_does_not_depend_on_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shuffles.libstdcxx(5000, Mt19937(3))
    monkeypatch.setattr(shuffles, "_STRETCH_WORDS", STRETCH)
    assert np.array_equal(shuffles.libstdcxx(5000, Mt19937(3)), whole)


def test_seed_seq() -> None:
    # What std::seed_seq{seed}.generate() gives for four numbers.
    assert seed_seq(0, 4) == [2963817213, 69796629, 1973464570, 532167439]
    assert seed_seq(42, 4) == [735521182, 3707395978, 3290902861, 980519533]
