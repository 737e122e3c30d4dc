"""Follows a command through the order that its user named: a thread of the daemon."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from fanstore.order.expected import Expected
from fanstore.order.follow import Follower
from fanstore.serve.loaders import side_by_side
from fanstore.serve.opens import Opens
from fanstore.serve.sink import Sink

_LOOK_S = 0.02
_IDLE_LOOK_S = 0.2  # where nothing was opened for a while
_IDLE_LOOKS = 50
_END_WAIT_S = 20.0


class _Epoch:
    """An epoch that the sink was told."""

    def __init__(self, sink: Sink, expected: Expected, behind: int) -> None:
        self.expected = expected
        self.follower = Follower(expected)
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


class _Course:
    """The epochs of one mount: that which is read, and the next."""

    def __init__(self, sink: Sink, epochs: Iterator[Expected]) -> None:
        self._sink = sink
        self._epochs = epochs
        self.epochs = self.matched = self.strange = self.broken = 0
        self.current = self._begin_next(0)
        self.following = self._begin_next(self.current.token) if self.current else None

    def _begin_next(self, behind: int) -> _Epoch | None:
        expected = next(self._epochs, None)
        return None if expected is None else _Epoch(self._sink, expected, behind)

    def note(self, opened: Any) -> None:
        """Takes what was opened, and moves on."""
        while len(opened):
            opened = self._follow(opened)

    def _follow(self, opened: Any) -> Any:
        """Does so in the epoch that is read. Returns those opens that may be of the next one, which
        is that from now on; none where it goes on."""
        epoch = self.current
        if epoch is None:
            return opened[:0]
        was_ending = epoch.is_ending
        position = epoch.follower.note(opened)
        if epoch.follower.broken and not was_ending:
            self.broken += 1
            self.end()
            return opened[:0]
        self._sink.advance(epoch.token, position, epoch.follower.read)
        if not epoch.is_over and not epoch.follower.broken:
            return opened[:0]
        self._close(epoch)
        self.current, self.following = self.following, None
        if self.current is not None:
            self.following = self._begin_next(self.current.token)
        return opened if epoch.follower.broken else epoch.follower.left

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


class Planned:
    """Follows all that is opened on this node. epochs: by the number of the mount. source: what
    figures say of where they come from, "" for the file of --order."""

    def __init__(
        self,
        segment: str,
        epochs: Mapping[int, Iterator[Expected]],
        sink: Sink,
        source: str = "",
    ) -> None:
        """Raises OSError where the sink cannot take it."""
        self._source = source
        self._opens = Opens(segment)
        self._courses = {mount: _Course(sink, each) for mount, each in epochs.items()}
        self._problem = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fanstore-order", daemon=True)

    def start(self) -> None:
        """Starts the thread that follows what is opened."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it, when all that was opened is counted."""
        self._stopping.set()
        self._thread.join(_END_WAIT_S)

    def figures(self) -> dict[str, Any]:
        """Returns counts as Announced does."""
        counts = [each.counts() for each in self._courses.values()]
        epochs, predicted, strange, broken = (sum(each) for each in zip(*counts, strict=True))
        refused = {self._problem: 1} if self._problem else {}
        samplers = {self._source: predicted} if self._source else {}
        return {
            "epochs": epochs, "predicted": predicted, "samplers": samplers, "strange": strange,
            "broken": broken, "refused": refused,
        }  # fmt: skip

    def _run(self) -> None:
        quiet = 0
        try:
            while not self._stopping.wait(_LOOK_S if quiet < _IDLE_LOOKS else _IDLE_LOOK_S):
                quiet = 0 if self._look() else quiet + 1
            self._look()
        except Exception as error:  # the job goes on without
            traceback.print_exception(error, file=sys.stderr)
            self._problem = f"{type(error).__name__}: {error}"
        for course in self._courses.values():
            course.end()

    def _look(self) -> bool:
        """Takes what was opened since the last look. Returns whether anything was."""
        found = self._opens.take()
        for mount, course in self._courses.items():
            parts = [by_mount[mount] for _, by_mount in found if mount in by_mount]
            if parts:
                course.note(side_by_side(parts))
        return bool(found)
