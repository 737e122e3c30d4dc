"""Predicts the next epoch of each loader, and passes it to the prefetcher (the sink) while the
loader still reads the current epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.foresight.order.follow import Expected
from fanstore.foresight.order.next_epoch import NextEpoch
from fanstore.foresight.order.samplers import samples
from fanstore.foresight.sink import Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A process, and the number of one of its loaders.
Key = tuple[int, int]
# Returns the reads of a loader in each mount, given the samples that it draws.
Expect = Callable[["NDArray[Any]"], Sequence[Expected]]


class Coming:
    """Predicts the next epoch of each loader. If several loaders of a process take turns, as for
    training and validation, the sink fetches the epoch after the one of the loader whose turn is
    before."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._guesses: dict[Key, NextEpoch] = {}
        self._told: dict[Key, list[tuple[Expected, int]]] = {}
        self._latest: dict[int, Key] = {}

    def take(self, key: Key, begun: Sequence[Expected]) -> list[int]:
        """Begins an epoch of a loader. Returns the token of each part of the epoch; the sink may
        have the parts already, from a prediction."""
        told = self._told.pop(key, [])
        if len(told) == len(begun) and all(
            _is_same(each, expected) for (each, _), expected in zip(told, begun, strict=True)
        ):
            return [token for _, token in told]
        for _, token in told:
            self._sink.end(token)
        return [self._sink.begin(expected) for expected in begun]

    def foresee(
        self,
        key: Key,
        said: Mapping[str, Any],
        parts: Mapping[str, bytes],
        expect: Expect,
        tokens: Sequence[int],
    ) -> None:
        """Sends the sink a guess of the epoch after the one that has just begun. said, parts: the
        announcement of the epoch that began, for fanstore.foresight.order.samplers; tokens: the
        tokens of its parts."""
        before = self._latest.get(key[0], key)
        self._latest[key[0]] = key
        guess = self._guesses.setdefault(key, NextEpoch()).guess(said, parts)
        if guess is None:
            return
        try:
            coming = expect(samples(guess, parts))
        except ValueError:  # for example an invalid seed
            return
        behind = [token for _, token in self._told.get(before, [])] or tokens
        self._told[key] = [
            (each, self._sink.begin(each, behind[min(number, len(behind) - 1)]))
            for number, each in enumerate(coming)
        ]

    def forget(self, is_gone: Callable[[int], bool]) -> None:
        """Drops the predictions for processes that have ended."""
        for key in [key for key in self._guesses if is_gone(key[0])]:
            del self._guesses[key]
            self._latest.pop(key[0], None)
            for _, token in self._told.pop(key, []):
                self._sink.end(token)


def _is_same(one: Expected, other: Expected) -> bool:
    return one.mount == other.mount and np.array_equal(one.records, other.records)
