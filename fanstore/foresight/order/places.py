"""Where each record stands in an order: once, or several times (padding, replacement)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Places:
    """The places of each record in an order, and which of them are taken: always the first ones.

    records: the order, uint64 (samples). Records have numbers here, in the order of their ids.
    """

    def __init__(self, records: NDArray[np.uint64]) -> None:
        self._count = len(records)
        self._places = np.argsort(records, kind="stable")
        by_record = records[self._places]
        changes = np.flatnonzero(by_record[1:] != by_record[:-1]) + 1
        starts = np.append(np.zeros(min(1, len(records)), np.int64), changes)
        self._records = by_record[starts]
        self._starts = starts
        self._ends = np.append(starts[1:], len(records)) if len(records) else starts
        self._next = starts.copy()

    def of(
        self, opened: NDArray[np.uint64], position: int
    ) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Returns four arrays with an entry for each open of a record of the order: where it is in
        `opened`; the number of the record; its next place that is not taken and not before
        `position`, or the length of the order where there is none; the place before that, or
        -1."""
        numbers = np.searchsorted(self._records, opened)
        known = numbers < len(self._records)
        known[known] = self._records[numbers[known]] == opened[known]
        numbers = numbers[known]
        which = np.flatnonzero(known)
        self._pass(np.unique(numbers), position)
        at = self._next[numbers] + _nth_of_its_kind(numbers)
        before = np.minimum(at, self._ends[numbers]) - 1
        last = np.where(before >= self._starts[numbers], self._places[before], -1)
        there = at < self._ends[numbers]
        at[~there] = 0
        return which, numbers, np.where(there, self._places[at], self._count), last

    def take(self, numbers: NDArray[np.int64]) -> None:
        """Takes the next place of each of these records; one that is there twice has two taken."""
        np.add.at(self._next, numbers, 1)

    def take_records(self, records: NDArray[np.uint64]) -> None:
        """Takes the next place of each of some records of the order."""
        self.take(np.searchsorted(self._records, records))

    def _pass(self, numbers: NDArray[np.int64], position: int) -> None:
        """Takes the places of some records that are before `position`."""
        while len(numbers):
            numbers = numbers[self._next[numbers] < self._ends[numbers]]
            numbers = numbers[self._places[self._next[numbers]] < position]
            self._next[numbers] += 1


def _nth_of_its_kind(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns for each entry how many equal ones stand before it."""
    by_number = np.argsort(numbers, kind="stable")
    ordered = numbers[by_number]
    nth = np.empty(len(numbers), np.int64)
    nth[by_number] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered)
    return nth
