"""Following what is opened in one mount through epochs that are known beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fanstore.foresight.order.expected import Expected
from fanstore.foresight.order.follow import Follower
from fanstore.foresight.sink import Sink

_TRIES = 16  # in an epoch, to find the place where an order holds again
_FEW_STRANGE = 8  # opens that are due for one that is not
_FOUND = 64  # opens in the order of an epoch, after another one went otherwise


class _Epoch:
    """An epoch that the sink was told."""

    def __init__(
        self, sink: Sink, expected: Expected, behind: int, follower: Follower | None = None
    ) -> None:
        """follower: it has followed the command already."""
        self.expected = expected
        self.follower = follower or Follower(expected)
        self.token = sink.begin(expected, behind)

    @property
    def is_over(self) -> bool:
        """Whether the command is past its end, as far as can be seen."""
        return self.follower.position >= len(self.expected.records)

    @property
    def is_ending(self) -> bool:
        """Whether what is left may be under way, or will not be read."""
        left = len(self.expected.records) - self.follower.position
        mostly_read = 2 * self.follower.matched >= len(self.expected.records)
        return mostly_read and left <= 2 * self.expected.reordered


class _Search:
    """Whether a command whose order was dropped reads in the order of the next epoch. It looks from
    when as many files were opened as the epoch has, and at the head of the next one alone: a file
    that is wrong for good costs next to nothing."""

    def __init__(self, expected: Expected, opened: int) -> None:
        """opened: so many of the epoch that was dropped were."""
        self.expected = expected
        self.follower = Follower(expected)
        self._enough = min(_FOUND, max(1, len(expected.records) // 2))
        self._left = max(0, len(expected.records) - opened)

    def note(self, opened: Any) -> bool:
        """Takes what was opened; returns whether the order holds again."""
        left = min(self._left, len(opened))
        self._left -= left
        if left < len(opened):
            self.follower.note(opened[left:])
        # Of files that are opened in any order many are due by chance.
        found, strange = self.follower.matched >= self._enough, self.follower.strange
        if found and _FEW_STRANGE * strange <= self.follower.matched:
            return True
        if found or self.follower.broken:
            self.follower = Follower(self.expected)
            self._left = len(self.expected.records) // _TRIES
        return False


class Course:
    """The epochs of one mount: that which is read, and the next."""

    def __init__(self, sink: Sink, epochs: Iterator[Expected], is_taken_up: bool = False) -> None:
        """is_taken_up: when it does not hold any more, it is looked for in later epochs."""
        self._sink = sink
        self._is_taken_up = is_taken_up
        self._epochs = epochs
        self.epochs = self.matched = self.strange = self.broken = 0
        self.current = self._begin_next(0)
        self.following = self._begin_next(self.current.token) if self.current else None
        self._search: _Search | None = None

    def _begin_next(self, behind: int) -> _Epoch | None:
        expected = next(self._epochs, None)
        return None if expected is None else _Epoch(self._sink, expected, behind)

    def note(self, opened: Any) -> None:
        """Takes what was opened, and moves on."""
        if self._search is not None:
            self._take_up(self._search, opened)
            return
        idle = 0
        while len(opened):
            left = self._follow(opened)
            # An epoch that ends may leave all to the next; where that takes nothing either, none
            # will.
            idle = idle + 1 if len(left) == len(opened) else 0
            if idle > 1 and self.current is not None:
                self._drop(self.current)
                return
            opened = left

    def _follow(self, opened: Any) -> Any:
        """Does so in the epoch that is read. Returns those opens that may be of the next one, which
        is that from now on; none where it goes on."""
        epoch = self.current
        if epoch is None:
            return opened[:0]
        was_ending = epoch.is_ending
        position = epoch.follower.note(opened)
        if epoch.follower.broken and not was_ending:
            self._drop(epoch)
            return opened[:0]
        self._sink.advance(epoch.token, position, epoch.follower.read)
        if not epoch.is_over and not epoch.follower.broken:
            return opened[:0]
        self._close(epoch)
        self.current, self.following = self.following, None
        if self.current is not None:
            self.following = self._begin_next(self.current.token)
        return opened if epoch.follower.broken else epoch.follower.left

    def _drop(self, epoch: _Epoch) -> None:
        """The command reads another way; in the next epoch the order may hold again."""
        self.broken += 1
        if self._is_taken_up and self.following is not None:
            opened = epoch.follower.matched + epoch.follower.strange
            self._search = _Search(self.following.expected, opened)
        self.end()

    def _take_up(self, search: _Search, opened: Any) -> None:
        """Goes on with the order where it holds again."""
        if not search.note(opened):
            return
        self._search = None
        self.current = _Epoch(self._sink, search.expected, 0, search.follower)
        self._sink.advance(self.current.token, search.follower.position, search.follower.read)
        self.following = self._begin_next(self.current.token)

    def _close(self, epoch: _Epoch) -> None:
        self._sink.end(epoch.token)
        self.epochs += epoch.follower.matched > 0
        self.matched += epoch.follower.matched
        self.strange += epoch.follower.strange

    def end(self) -> None:
        """Ends the epochs that are known: the sink brings nothing more for them."""
        for epoch in (self.current, self.following):
            if epoch is not None:
                self._close(epoch)
        self.current = self.following = None

    def counts(self) -> tuple[int, int, int, int]:
        """Returns epochs, opens that were foreseen, strange ones, and epochs broken off."""
        now = [self.current.follower] if self.current else []
        return (
            self.epochs + sum(each.matched > 0 for each in now),
            self.matched + sum(each.matched for each in now),
            self.strange + sum(each.strange for each in now),
            self.broken,
        )
