"""Guesses a loader's announcement of its next epoch from its announcements before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fanstore.arrays import np
from fanstore.policy.orders.generators import Mt19937, generator_at

_SEEDS = ("seed", "seeded")  # parameters that change from epoch to epoch
_WRONG_MAX = 2
_COMPARED = 8  # equal words that show that two generators have one state
_WORDS_FEW = 1 << 12  # words that a training loop draws beside its loader, at most
_WORDS_MOST = 1 << 22


class NextEpoch:
    """Guesses for one loader. From epoch to epoch the seed of its sampler grows by a fixed step, or
    its generator draws a fixed number of words (two for each iterator of torch, two for each seed,
    and the sampler's own). Before the first step is seen, a seed is expected to grow by one. After
    two wrong guesses in a row, it guesses again only when the last two steps were equal."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}
        self._parts: dict[str, int] = {}
        self._step: int | None = None
        self._wrong = 0

    def guess(self, said: Mapping[str, Any], parts: Mapping[str, bytes]) -> dict[str, Any] | None:
        """Takes the announcement of an epoch (as torch_samplers takes it). Returns the expected
        announcement of the next epoch with the same parts; None if there is none after this one
        ("is_last"), or nothing can be guessed."""
        digests = {name: hash(content) for name, content in parts.items()}
        step = _first_step(said)
        if self._last:
            step = _step(self._last, said) if digests == self._parts else None
        self._parts = digests
        if self._last and self._step is not None:
            self._wrong = 0 if step == self._step else self._wrong + 1
        is_steady = self._wrong < _WRONG_MAX
        self._last, self._step = said, step
        if step is None or not is_steady or said.get("is_last"):
            return None
        return _after(said, step)


def _seed_of(said: Mapping[str, Any]) -> str | None:
    return next((name for name in _SEEDS if isinstance(said.get(name), int)), None)


def _first_step(said: Mapping[str, Any]) -> int | None:
    if "state" in said or said.get("kind") == "Listed":
        return None
    return int(_seed_of(said) is not None and said.get("shuffle") is not False)


def _step(before: Mapping[str, Any], said: Mapping[str, Any]) -> int | None:
    """Returns how far seed or generator moved between two epochs; None if anything else changed."""
    changing = {_seed_of(said), "state", "is_last"}
    if any(before.get(name) != said.get(name) for name in {*before, *said} - changing):
        return None
    seed = _seed_of(said)
    if seed is not None:
        return int(said[seed]) - int(before[seed])
    if "state" not in said:
        return 0
    reads = 2 * (int(said.get("samples", 0)) + int(said.get("drawn", 0)))
    return words_between(before["state"], said["state"], reads)


def words_between(before: str, after: str, likely: int) -> int | None:
    """Returns how many words a generator drew between two states (torch's, in hexadecimal); None if
    that is neither up to a few thousand nor up to about `likely`, or if the generators differ."""
    first, second = (bytes.fromhex(state) for state in (before, after))
    wanted = generator_at(second).take(_COMPARED)
    for most in (_WORDS_FEW, min(likely + _WORDS_FEW, _WORDS_MOST)):
        found = _find(generator_at(first), wanted, most)
        if found is not None:
            return found
    return None


def _find(generator: Mt19937, wanted: np.ndarray[Any, Any], most: int) -> int | None:
    words = generator.take(most + len(wanted))
    for place in np.flatnonzero(words[:most] == wanted[0]).tolist():
        if (words[place : place + len(wanted)] == wanted).all():
            return int(place)
    return None


def _after(said: Mapping[str, Any], step: int) -> dict[str, Any]:
    seed = _seed_of(said)
    if seed is not None:
        return {**said, seed: said[seed] + step}
    return {**said, "skip": step} if "state" in said else dict(said)
