"""Known epochs: passes them to the sink, and follows the reader in them by its opens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.dataset import NO_RECORD
from fanstore.foresight.order.follow import Expected, Follower
from fanstore.foresight.sink import Sink
from fanstore.messages.figures import OrderFigures

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Records = NDArray[np.uint64]
    Counts = NDArray[np.int64]

_PIECE = 32  # a follower matches at least so many opens at once, in any order
_TRIES = 16  # how often an epoch is searched for a place from which the order holds again
_FEW_STRANGE = 8  # expected opens for each unexpected one
_FOUND = 64  # expected opens that prove that a dropped order holds again


def figures_of(counts: Counts, source: str) -> OrderFigures:
    """Returns counts by name. counts: known epochs, predicted opens, strange (unexpected) opens,
    and epochs that left their order. source: how the order was known, for people, or ""."""
    epochs, predicted, strange, broken = (int(each) for each in counts)
    return OrderFigures(
        epochs=epochs, predicted=predicted, strange=strange, broken=broken,
        samplers={source: predicted} if source else {}, refused={},
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class BySamples:
    """Follows a reader of parts of files by the samples that it begins: for these it opens a file,
    or leaves a note, while parts of mapped files are read without a note once the kernel has them.
    samples: what is expected of them; its mount is that of the files, or samples_of the dataset.
    ends: for each of them, the number of reads of the epoch up to its end. under_way: how many
    samples may be begun and not read yet."""

    samples: Expected
    ends: NDArray[np.int64]
    under_way: int


class FollowedEpoch:
    """The expected reads of one reader in one mount and epoch. The sink knows them, and is told the
    reader's progress; more reads can be appended.

    token: the sink's name for the epoch. known: a phrase for people that says how it is known.
    follower: one that has followed the reader already. by: how to follow it, if not by opens."""

    def __init__(
        self,
        sink: Sink,
        expected: Expected,
        token: int,
        known: str = "",
        follower: Follower | None = None,
        by: BySamples | None = None,
    ) -> None:
        self.expected = expected
        self.known = known
        self.follower = follower or Follower(by.samples if by else expected)
        self._by = by
        # If no opens are followed: the expected files and pieces of each part, and how many opens
        # were of these.
        self._counted = [self._sorted(expected.records)]
        self._read = 0
        self._sink = sink
        self._dropped = 0  # samples that the follower has dropped
        self._end = len(expected.records)
        self._pieces = [(token, 0, self._end)]  # for each part: token, first and last sample

    @property
    def follows(self) -> int:
        """The mount whose opens show the reader's progress, or samples_of a dataset."""
        return self._by.samples.mount if self._by else self.expected.mount

    @property
    def matched(self) -> int:
        """How many opens, and reads of pieces, were as expected."""
        return self.follower.matched if self.follows == self.expected.mount else self._read

    def count(self, opened: Records) -> None:
        """Counts opens of the mount, if the reader is not followed by them."""
        if self.follower.broken or self.follows == self.expected.mount:
            return
        found = np.zeros(len(opened), bool)
        for expected in self._counted:
            found |= expected[np.searchsorted(expected, opened)] == opened
        self._read += int(found.sum())

    def _sorted(self, records: Records) -> Records:
        """Returns what `count` looks opens up in: sorted, with a last one that is no open, so that
        nothing is searched beyond the end. Nothing but that if opens are followed."""
        some = records if self.follows != self.expected.mount else records[:0]
        return np.sort(np.append(some, np.uint64(NO_RECORD)))

    @property
    def token(self) -> int:
        """The sink's name for the part that is being read."""
        return self._pieces[0][0]

    @property
    def is_over(self) -> bool:
        """Whether the reader is past the end of the epoch, judged by its opens."""
        return self.follower.position >= len(self.expected.records)

    @property
    def is_ending(self) -> bool:
        """Whether the epoch is nearly over: its last opens may be delayed or missing."""
        left = len(self.expected.records) - self.follower.position
        mostly_read = 2 * self.follower.matched >= len(self.expected.records)
        return mostly_read and left <= 2 * self.expected.reordered

    def extend(self, expected: Expected, by: BySamples | None) -> None:
        """Appends reads to the expected ones, in such batches. by: if that was given before. Raises
        OSError."""
        if self.follower.broken or (by is None) != (self._by is None):
            return
        records, more = expected.records, by.samples if by else expected
        if by is not None and self._by is not None:
            ends = np.append(self._by.ends, by.ends + self._end)
            self._by = replace(self._by, ends=ends)
        self._counted.append(self._sorted(records))
        behind = self._pieces[-1][0] if self._pieces else 0
        self._dropped += self.follower.extend(more.records, more.batch)
        token = self._sink.begin(Expected(self.expected.mount, records), behind)
        self._pieces.append((token, self._end, self._end + len(records)))
        self._end += len(records)
        self.tell()

    def note(self, records: Records) -> Records:
        """Matches opens, some at once and in any order. Returns the opens that may belong to other
        epochs."""
        follower = self.follower
        if follower.broken or not len(records):
            return records
        step = max(_PIECE, follower.reordered)
        left = []
        for at in range(0, len(records), step):
            follower.note(records[at : at + step])
            left.append(follower.left)
        if follower.broken:
            self.end()
        else:
            self.tell()
        return np.concatenate(left)

    def catch_up(self, opened: Records) -> Records:
        """Matches opens since the loader began that no epoch has matched. Returns the remaining
        ones."""
        if self.follower.broken:
            return opened
        self.follower.catch_up(opened)
        self.tell()
        return self.follower.left

    def tell(self) -> None:
        """Reports the reader's progress to the sink."""
        position, read = self._position(), self._reads_of(self._dropped + self.follower.read)
        while len(self._pieces) > 1 and self._pieces[0][2] <= position:
            self._sink.end(self._pieces.pop(0)[0])
            self._counted.pop(0)
        token, begin, end = self._pieces[0]
        read = min(read, end) - begin
        if read > 0:  # otherwise the wait for the first read would count in the pace
            self._sink.advance(token, max(0, position - begin), read)

    def _position(self) -> int:
        """Returns how many reads the reader has passed."""
        passed = self._dropped + self.follower.position
        return self._reads_of(passed - self._by.under_way if self._by else passed)

    def _reads_of(self, steps: int) -> int:
        """Returns the number of reads in so many steps of the follower."""
        if self._by is None:
            return steps
        return int(self._by.ends[steps - 1]) if steps > 0 else 0

    def end(self) -> None:
        """Ends the epoch in the sink, because it is not read any further."""
        for token, _, _ in self._pieces:
            self._sink.end(token)
        self._pieces = []


class _Search:
    """Finds out whether a command that left its order reads in the order of the next epoch. Begins
    after as many opens as the epoch has files, and looks only at the beginning of the next epoch,
    so that an order file that stays wrong costs almost nothing."""

    def __init__(self, expected: Expected, opened: int) -> None:
        """opened: the number of opens of the epoch in which the order was left."""
        self.expected = expected
        self.follower = Follower(expected)
        self._enough = min(_FOUND, max(1, len(expected.records) // 2))
        self._left = max(0, len(expected.records) - opened)

    def note(self, opened: Any) -> bool:
        """Matches opens. Returns whether the command reads in the order again."""
        left = min(self._left, len(opened))
        self._left -= left
        if left < len(opened):
            self.follower.note(opened[left:])
        # If files are opened in random order, many opens match by chance.
        found, strange = self.follower.matched >= self._enough, self.follower.strange
        if found and _FEW_STRANGE * strange <= self.follower.matched:
            return True
        if found or self.follower.broken:
            self.follower = Follower(self.expected)
            self._left = len(self.expected.records) // _TRIES
        return False


class Course:
    """Follows a reader through the epochs of one mount: the current epoch and the next one."""

    def __init__(self, sink: Sink, epochs: Iterator[Expected], is_taken_up: bool = False) -> None:
        """is_taken_up: if the reader leaves the order, look for the order again in later epochs."""
        self._sink = sink
        self._is_taken_up = is_taken_up
        self._epochs = epochs
        self._counts: Counts = np.zeros(4, np.int64)
        self.current = self._begin_next(0)
        self.following = self._begin_next(self.current.token) if self.current else None
        self._search: _Search | None = None

    def _begin_next(self, behind: int) -> FollowedEpoch | None:
        expected = next(self._epochs, None)
        return None if expected is None else self._begin(expected, behind)

    def _begin(
        self, expected: Expected, behind: int, follower: Follower | None = None
    ) -> FollowedEpoch:
        token = self._sink.begin(expected, behind)
        return FollowedEpoch(self._sink, expected, token, follower=follower)

    def note(self, opened: Any) -> None:
        """Matches opens with the present epoch, and starts the next epoch when one ends."""
        if self._search is not None:
            self._take_up(self._search, opened)
            return
        idle = 0
        while len(opened):
            left = self._follow(opened)
            # An epoch that ends may leave all opens to the next. If the next matches none, no epoch
            # will.
            idle = idle + 1 if len(left) == len(opened) else 0
            if idle > 1 and self.current is not None:
                self._drop(self.current)
                return
            opened = left

    def _follow(self, opened: Any) -> Any:
        """Matches `opened` with the current epoch. If the epoch ends, makes the next one current
        and returns the opens that may belong to it; otherwise returns none."""
        epoch = self.current
        if epoch is None:
            return opened[:0]
        was_ending = epoch.is_ending
        epoch.follower.note(opened)
        if epoch.follower.broken and not was_ending:
            self._drop(epoch)
            return opened[:0]
        epoch.tell()
        if not epoch.is_over and not epoch.follower.broken:
            return opened[:0]
        self._close(epoch)
        self.current, self.following = self.following, None
        if self.current is not None:
            self.following = self._begin_next(self.current.token)
        return opened if epoch.follower.broken else epoch.follower.left

    def _drop(self, epoch: FollowedEpoch) -> None:
        """Gives up the order of an epoch, because the command reads in another. The next epoch may
        follow it again."""
        self._counts[3] += 1
        if self._is_taken_up and self.following is not None:
            opened = epoch.follower.matched + epoch.follower.strange
            self._search = _Search(self.following.expected, opened)
        self.end()

    def _take_up(self, search: _Search, opened: Any) -> None:
        """Continues with the order if the command follows it again."""
        if not search.note(opened):
            return
        self._search = None
        self.current = self._begin(search.expected, 0, search.follower)
        self.current.tell()
        self.following = self._begin_next(self.current.token)

    def _close(self, epoch: FollowedEpoch) -> None:
        epoch.end()
        self._counts += _counts_of(epoch)

    def end(self) -> None:
        """Ends the known epochs: the sink fetches nothing more for them."""
        for epoch in (self.current, self.following):
            if epoch is not None:
                self._close(epoch)
        self.current = self.following = None

    def counts(self) -> Counts:
        """Returns the counts of epochs, predicted opens, unexpected opens, and epochs read in
        another order."""
        current = self.current  # another thread may replace it
        return self._counts if current is None else self._counts + _counts_of(current)


def _counts_of(epoch: FollowedEpoch) -> Counts:
    follower = epoch.follower
    return np.array([follower.matched > 0, follower.matched, follower.strange, 0])
