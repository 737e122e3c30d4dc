"""What a loader says of its next epoch, guessed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fanstore.foresight.order.next_epoch import NextEpoch, words_between
from fanstore.foresight.order.samplers import samples

PLAIN = {"batch": 4, "drop_last": False}


def state(seed: int, drawn: int) -> str:
    """The state of torch's generator after so many words, in hexadecimal."""
    generator = np.random.RandomState(seed)
    if drawn:
        generator.bytes(4 * drawn)
    found = generator.get_state(legacy=False)["state"]
    head = np.zeros(1, [("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8")])
    head["left"], head["next"] = max(1, 624 - found["pos"]), found["pos"]
    words = found["key"].astype("<u8").tobytes()
    return (head.tobytes() + words + bytes(5056 - head.nbytes - len(words))).hex()


def drawing(seed: int, drawn: int, **more: Any) -> dict[str, Any]:
    own = {"kind": "RandomSampler", "samples": 100, "drawn": 100, "replacement": False}
    return {**PLAIN, **own, "own_generator": False, "state": state(seed, drawn), **more}


def distributed(seed: int, **more: Any) -> dict[str, Any]:
    own = {"kind": "DistributedSampler", "samples": 100, "seed": seed, "shuffle": True}
    return {**PLAIN, **own, "pads": True, "rank": 1, "world_size": 4, **more}


def same(guess: dict[str, Any] | None, said: dict[str, Any]) -> bool:
    return guess is not None and np.array_equal(samples(guess, {}), samples(said, {}))


@pytest.mark.parametrize("words", [0, 1, 4, 6, 623, 624, 625, 4000, 4199])
def test_words_are_counted(words: int) -> None:
    assert words_between(state(3, 10), state(3, 10 + words), 200) == words


def test_words_of_another_generator_are_not() -> None:
    assert words_between(state(3, 10), state(4, 14), 200) is None
    assert words_between(state(3, 14), state(3, 10), 200) is None
    assert words_between(state(3, 0), state(3, 5000), 200) is None
    assert words_between(state(3, 0), state(3, 5000), 1000) == 5000


def test_nothing_is_guessed_behind_the_last_epoch() -> None:
    coming = NextEpoch()
    assert same(coming.guess(distributed(3, is_last=False), {}), distributed(4))
    assert coming.guess(distributed(4, is_last=True), {}) is None
    assert same(coming.guess(distributed(5, is_last=False), {}), distributed(6))


@pytest.mark.parametrize("words", [2, 4, 6, 99 + 99])
def test_a_generator_goes_on_as_before(words: int) -> None:
    coming = NextEpoch()
    epochs = [drawing(7, words * epoch) for epoch in range(5)]
    assert coming.guess(epochs[0], {}) is None
    for said, after in pairwise(epochs[1:]):
        assert same(coming.guess(said, {}), after)


def test_a_seed_goes_up_or_stays() -> None:
    for step in (1, 0):
        coming = NextEpoch()
        assert same(coming.guess(distributed(5), {}), distributed(6))  # set_epoch is usual
        for epoch in range(1, 4):
            guess = coming.guess(distributed(5 + step * epoch), {})
            assert same(guess, distributed(5 + step * (epoch + 1)))


def test_what_is_not_shuffled_is_the_same_again() -> None:
    in_turn = {**PLAIN, "kind": "SequentialSampler", "samples": 9}
    for said in (in_turn, distributed(0, shuffle=False)):
        coming = NextEpoch()
        assert all(same(coming.guess(said, {}), said) for _ in range(3))


def test_a_seed_of_its_own() -> None:
    said = {**drawing(0, 0), "seeded": 42}
    del said["state"]
    coming = NextEpoch()
    assert same(coming.guess(said, {}), {**said, "seeded": 43})


def test_what_goes_on_otherwise_is_guessed_no_more() -> None:
    """A training loop that draws as it likes: until it draws alike twice."""
    coming = NextEpoch()
    drawn = np.cumsum([0, 4, 10, 7, 9, 30, 4, 4, 4])
    guesses = [coming.guess(drawing(7, int(words)), {}) for words in drawn]
    assert [guess is not None for guess in guesses] == [
        False, True, True, False, False, False, False, True, True,
    ]  # fmt: skip
    assert same(guesses[-2], drawing(7, int(drawn[-1])))


def test_another_sampler_is_another_beginning() -> None:
    coming = NextEpoch()
    coming.guess(distributed(5), {})
    assert coming.guess(distributed(6, samples=50), {}) is None
    assert coming.guess(drawing(7, 0), {}) is None


def test_a_list_is_expected_again_once_it_was_read_twice() -> None:
    listed = {**PLAIN, "kind": "Listed"}
    coming, rows = NextEpoch(), [np.arange(4).tobytes(), np.arange(4)[::-1].tobytes()]
    guesses = [coming.guess(listed, {"indices": rows[n]}) for n in (0, 0, 0, 1, 0)]
    assert [guess is not None for guess in guesses] == [False, True, True, False, False]
