"""The order in which a loader is expected to read, and how far the loader is in it, judged by its
opens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_STRANGE_MAX = 16  # if more unexpected opens come in a row, the order is broken
_JUMP_MIN = 12  # if more of these are near each other, further ahead, the loader is there
# Each expected open makes up for so many: other programs may open the files, too.
_STRANGE_RATIO = 4


@dataclass(frozen=True, eq=False)
class Expected:
    """The expected reads of a loader in one mount. mount: the mount's number in its job. records:
    the record ids of the files in the order of sampling, uint64 (samples); a file that is read
    again is listed again. workers: 0 if the process itself reads. batch: samples in a batch.
    prefetch_factor: how many batches each worker prepares ahead. in_order: whether batches leave
    the loader in the order of sampling (an option of torch's DataLoader). reopened: files are
    opened several times, as shards are, and each of these opens counts as expected.

    Raises ValueError for values out of range."""

    mount: int
    records: NDArray[np.uint64]
    workers: int = 0
    batch: int = 1
    prefetch_factor: int = 2
    in_order: bool = True
    reopened: bool = False

    def __post_init__(self) -> None:
        checks.integer("mount", self.mount, 0)
        checks.integer("workers", self.workers, 0)
        checks.integer("batch", self.batch, 1)
        checks.integer("prefetch_factor", self.prefetch_factor, 1)
        checks.flag("in_order", self.in_order)
        checks.flag("reopened", self.reopened)
        records = checks.reads("records", self.records, 2**63)
        object.__setattr__(self, "records", records.astype(np.uint64, copy=False))

    @property
    def reordered(self) -> int:
        """The most samples that may be under way at once, and so how far an open may be from its
        place in the order."""
        return self.batch * max(1, self.workers * self.prefetch_factor)


class Follower:
    """Follows a loader through one `Expected`.

    position: how many samples at the beginning are surely passed. matched: the number of expected
    opens. strange: the number of opens of the epoch's files that were not expected at that time.
    broken: the loader reads in another order; stays set. Unless the files are `reopened`, the open
    of a file again, shortly after its expected open, does not count, and neither does an open of
    any other file. left: opens among the last ones noted that may belong to the next epoch."""

    def __init__(self, expected: Expected) -> None:
        self.position = 0
        self.matched = 0
        self.strange = 0
        self.broken = False
        self.left = np.empty(0, np.uint64)
        self._expected = expected
        self._places = Places(expected.records)
        self._opened = np.zeros(len(expected.records), dtype=bool)
        self._room = 2 * expected.reordered
        self._furthest = 0  # one past the furthest place that was opened
        self._doubt = 0
        self._astray: list[int] = []  # the places of the last unexpected opens

    @property
    def read(self) -> int:
        """How many samples were opened or passed, including all before the position."""
        beyond = self._opened[self.position : self._furthest]
        return self.position + int(np.count_nonzero(beyond))

    def note(self, opened: ArrayLike) -> int:
        """Matches the record ids that all processes of the loader opened since the last call, in
        about that order. Returns the position. The time grows with the number of opens, but only
        with the logarithm of the order's length."""
        self.left = np.asarray(opened, dtype=np.uint64)
        is_over = self.position == len(self._opened)
        if self.broken or (is_over and not self._expected.reopened):
            return self.position
        which, numbers, places, last = self._places.of(self.left, self.position)
        # The notes of several processes are read one after the other, so opens may seem later by
        # this much.
        self._room = max(self._room, self._expected.reordered + len(places))
        due = self._match(numbers, places)
        # If the next place of a file is far ahead and its last place is just passed, the file was
        # opened again.
        again = ~due & (last >= max(0, self.position - 2 * self._room))
        counted = self._count_again(again, last)
        astray = np.where(places < len(self._opened), places, last)[~due & ~again]
        self._advance()
        if self.position == len(self._opened):
            self.left = np.delete(self.left, which[due | counted])
        else:
            self.left = np.delete(self.left, which[due | again])
            self._doubt_it(astray.tolist(), int(due.sum()))
        return self.position

    def expects(self, opened: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Returns which opens the order has at about its present place, and changes nothing."""
        due = np.zeros(len(opened), bool)
        if not self.broken and self.position < len(self._opened):
            which, _, places, _ = self._places.of(opened, self.position)
            end = max(self._furthest, self.position) + self._room + len(opened)
            due[which] = places < min(end, len(self._opened))
        return due

    def catch_up(self, opened: ArrayLike) -> int:
        """Matches record ids that were opened before the epoch was known to have begun; the last of
        them may belong to later epochs. Unexpected ones are not counted, but put in `left`. Returns
        the position."""
        rest, left = np.asarray(opened, np.uint64), []
        while len(rest) and self.position < len(self._opened):
            piece, rest = np.split(rest, [self._expected.reordered])
            which, numbers, places, last = self._places.of(piece, self.position)
            due = self._match(numbers, places)
            counted = self._count_again(~due & (last >= 0), last)
            left.append(np.delete(piece, which[due | counted]))
            self._advance()
        self.left = np.concatenate([*left, rest])
        return self.position

    @property
    def reordered(self) -> int:
        """How far an open may be from its place in the order, in samples."""
        return self._expected.reordered

    def extend(self, records: NDArray[np.uint64], batch: int) -> int:
        """Appends expected reads, in batches of `batch` files. Drops samples that are passed,
        because a loader that has drawn more samples is far beyond them. Places and the position
        then count from the first sample that was not dropped. Returns how many were dropped."""
        batch = max(batch, self._expected.batch)
        before = replace(self._expected, batch=batch)
        dropped = max(self.position, len(self._opened) - 2 * before.reordered)
        opened = self._opened[dropped:]
        self._expected = replace(before, records=np.append(before.records[dropped:], records))
        self._places = Places(self._expected.records)
        self._places.take_records(self._expected.records[: len(opened)][opened])
        self._opened = np.append(opened, np.zeros(len(records), dtype=bool))
        self._room = max(self._room, 2 * before.reordered)
        self._furthest = max(0, self._furthest - dropped)
        self._astray, self.position = [], 0
        return dropped

    def _doubt_it(self, astray: list[int], matched: int) -> None:
        """Counts unexpected opens, at the places `astray`, and `matched` expected ones. Too many
        unexpected ones set `broken`."""
        self.strange += len(astray)
        self._doubt = max(0, self._doubt + len(astray) - _STRANGE_RATIO * matched)
        self._astray = [*self._astray, *astray][-_STRANGE_MAX:]
        if self._doubt > _STRANGE_MAX:
            self.broken = not self._jump()

    def _count_again(self, again: NDArray[np.bool_], last: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Counts opens of files again as matched, if the files are `reopened`. Returns a mask of
        them."""
        counted = again & self._opened[last] if self._expected.reopened else again & False
        self.matched += int(counted.sum())
        return counted

    def _match(self, numbers: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Counts opens that the order expects by now as matched. Returns a mask of them."""
        due = self._mark(places)
        self._places.take(numbers[due])
        self.matched += int(due.sum())
        return due

    def _mark(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Marks places that may be opened by now: those with few unopened places before them.
        Returns a mask of them."""
        size = len(self._opened)
        due = places < size
        fresh = places[due & ~self._opened[np.minimum(places, size - 1)]] if size else places[:0]
        self._opened[fresh] = True
        end = max(self._furthest, self.position) + self._room + len(places) + 1
        free = np.flatnonzero(~self._opened[self.position : end])
        limit = self.position + int(free[self._room]) if len(free) > self._room else end
        self._opened[fresh[fresh > limit]] = False
        due &= places <= limit
        self._furthest = max(self._furthest, int(places[due].max(initial=-1)) + 1)
        return due

    def _advance(self) -> None:
        """Moves the position past opened samples, and past samples that the loader skipped because
        it need not read them."""
        ahead = self._opened[self.position : self._furthest]
        opened, left = np.flatnonzero(ahead), np.flatnonzero(~ahead)
        step = int(left[0]) if len(left) else len(ahead)
        if self._expected.in_order and len(opened) > self._room:
            step = max(step, int(opened[-self._room]))
        elif len(left) > self._room:
            step = int(left[-self._room])
        self.position += step

    def _jump(self) -> bool:
        """Checks whether the loader has gone on further ahead in the order: a resumed job begins
        there, and a busy node may miss opens. If so, moves the position there. Returns whether it
        did."""
        places = np.unique([place for place in self._astray if place >= self.position])
        beyond = len(places) - _JUMP_MIN
        spans = places[_JUMP_MIN:] - places[: max(0, beyond)]
        if not len(spans) or spans.min() > self._room:
            return False
        at = int(spans.argmin())
        places = places[at : at + _JUMP_MIN + 1]
        self.position = int(places[0])
        self._opened[places] = True
        self._furthest = int(places[-1]) + 1
        self.matched += len(places)
        self.strange -= len(places)
        self._doubt, self._astray = 0, []
        self._advance()
        return True


class Places:
    """Finds the places of each record in an order, and knows how many of them are taken: always the
    first ones.

    records: the order, uint64 (samples). Records are numbered here in the order of their ids."""

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
        """Returns four arrays with an entry for each open of a record of the order: its index in
        `opened`; the number of the record; the record's next place that is neither taken nor before
        `position`, or the length of the order if there is none; the record's place before that, or
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
        """Takes the next place of each of these records; if a record is listed twice, two
        places."""
        np.add.at(self._next, numbers, 1)

    def take_records(self, records: NDArray[np.uint64]) -> None:
        """Takes the next place of each of these records, which must be in the order."""
        self.take(np.searchsorted(self._records, records))

    def _pass(self, numbers: NDArray[np.int64], position: int) -> None:
        """Takes all places before `position` of these records."""
        while len(numbers):
            numbers = numbers[self._next[numbers] < self._ends[numbers]]
            numbers = numbers[self._places[self._next[numbers]] < position]
            self._next[numbers] += 1


def _nth_of_its_kind(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns for each entry how many equal entries come before it."""
    by_number = np.argsort(numbers, kind="stable")
    ordered = numbers[by_number]
    nth = np.empty(len(numbers), np.int64)
    nth[by_number] = np.arange(len(numbers)) - np.searchsorted(ordered, ordered)
    return nth
