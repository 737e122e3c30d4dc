"""Predicts a loader's announcement of its next epoch from its earlier announcements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fanstore.arrays import np
from fanstore.policy.orders.generators import Mt19937, generator_at

_SEEDS = ("seed", "seeded")  # parameters that change from epoch to epoch
_WRONG_MAX = 2
_COMPARED = 8  # equal words that prove that two generators are in the same state
_WORDS_FEW = 1 << 12  # the most words that a training loop draws besides its loader
_WORDS_MOST = 1 << 22


class NextEpoch:
    """Predicts announcements of one loader. From epoch to epoch, the seed of its sampler grows by a
    fixed step, or its generator draws a fixed number of words (two for each iterator of torch, two
    for each seed, and the sampler's own). Before a step is known, a seed is expected to grow by
    one. After two wrong predictions in a row, it predicts again only when the last two steps were
    equal."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}
        self._parts: dict[str, int] = {}
        self._step: int | None = None
        self._wrong = 0

    def guess(self, said: Mapping[str, Any], parts: Mapping[str, bytes]) -> dict[str, Any] | None:
        """Takes the announcement of an epoch (in the form that torch_samplers reads). Returns the
        expected announcement of the next epoch with the same parts; None if this epoch is the last
        ("is_last"), or the next one cannot be predicted."""
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
    """Returns how far the seed or generator moved between two epochs; None if anything else
    changed."""
    changing = {_seed_of(said), "state", "drew", "is_last"}
    if any(before.get(name) != said.get(name) for name in {*before, *said} - changing):
        return None
    seed = _seed_of(said)
    if seed is not None:
        return int(said[seed]) - int(before[seed])
    if "state" not in said:
        return 0
    samples = int(said.get("samples", 0))
    reads = 2 * (samples + int(said.get("drawn", samples)))
    return words_between(before["state"], said["state"], reads)


def words_between(before: str, after: str, likely: int) -> int | None:
    """Returns how many words a generator of torch drew between two states (in hexadecimal). Returns
    None if that is neither at most a few thousand nor close to `likely`, or if the states belong to
    different generators."""
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
    return {**said, "skip": step, "drew": None} if "state" in said else dict(said)
