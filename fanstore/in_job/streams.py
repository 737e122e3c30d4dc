"""Announces the files of a stream: an iterator that goes through a list of paths and reads each
file as it comes, such as that of an IterableDataset. Looks at what the iterator refers to between
two samples, and never advances it. See start.py."""

from __future__ import annotations

import math
import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from fanstore.in_job.told import EpochTold

_OWN = 1 << 17  # epochs.py numbers its loaders below this
_DRAWN_ENOUGH = 64  # samples after which a stream without a list is reported
_ADVICE = "it can announce its files (fanstore.order)"
_LOOKED_AT = 8  # directories that relative paths may be in
_TRIES_MAX = 32  # the most paths looked at in one search
_SHARDS = "shards"  # of announcements of the libraries in shards.py, and their list
# How far opens may be from their place in the list, in files.
_AHEAD_MIN, _AHEAD_MAX = 64, 1024


class Streams:
    """Watches iterators. rows, files, shards: modules of this directory; number_in: numbers things
    in a list of weak references, as in epochs.py; kind: of the announcements; teller: sends them;
    last_opened: returns the inode number of the file that this thread opened last. An error in any
    of them ends the watching."""

    def __init__(
        self,
        rows: Any,
        files: Any,
        shards: Any,
        number_in: Callable[..., Any],
        kind: str,
        teller: Any,
        last_opened: Callable[[], int],
    ) -> None:
        self._rows = rows
        self._files = files
        self._shards = shards
        self._number_in = number_in
        self._kind = kind
        self._teller = teller
        self._last_opened = last_opened
        self._off = False
        self._sources: list[Any] = []
        self._seen: Any = weakref.WeakKeyDictionary()

    def drawing(self, iterator: Any, owner: Any, turn: int, source: Any, name: str) -> None:
        """Call it when `iterator` is about to be asked for its next sample. owner: has one such
        iterator after the other, with a larger `turn` each, and is left alone once two of them are
        in use at the same time; source: makes a new one for each epoch; name: for the report."""
        if self._off:
            return
        try:
            seen = self._seen.get(owner)
            if seen is None or seen.turn < turn or seen.pid != os.getpid():
                seen = self._seen[owner] = _Seen(turn)
            if seen.turn > turn:  # iterators take turns: the order of their files is unknown
                seen.turn = math.inf
                return
            if seen.drawn == seen.look_at:
                self._look(iterator, source, seen, name)
            seen.drawn += 1
        except BlockingIOError:  # the daemon is busy, so this message is skipped
            seen.drawn += 1
        except Exception as error:
            self._teller.failed(error)
            self._off = True

    def _look(self, iterator: Any, source: Any, seen: _Seen, name: str) -> None:
        """Announces the rest of the list that an iterator goes through. Looks again when that has
        passed: the iterator may go through several lists."""
        seen.look_at = max(1, 2 * seen.drawn)
        things = self._rows.reached(iterator)
        row, rest = self._of_library(things)
        if rest is None and seen.row is not _SHARDS:
            row, rest = self._found(things)
        if rest is None and seen.row is not _SHARDS:
            row, rest = self._by_number(things)
            seen.agreed = 0 if rest is None else seen.agreed + 1
            rest = rest if seen.agreed > 1 else None  # one file may agree by chance
        if rest is None and seen.row is None and seen.drawn >= _DRAWN_ENOUGH:
            seen.row = ()
            self._teller.say(f"{name} goes through no list of paths; {_ADVICE}")
        if rest is None:
            return
        left = len(rest[0])
        if row == seen.row and left <= seen.left:  # the same list, farther on
            return
        number, _ = self._number_in(self._sources, source)
        if number < 0:
            return
        known = f"{name}, its files" if self._kind == "stream" else name
        kind, ahead = self._kind, max(_AHEAD_MIN, min(_AHEAD_MAX, left // 16))
        if row == _SHARDS:
            kind, ahead = _SHARDS, _AHEAD_MIN
        message: EpochTold = {
            "loader": _OWN + number, "dataset": _OWN + number, "workers": 0, "prefetch_factor": 1,
            "in_order": True, "files_per_sample": 1,
            "sampler": {
                "kind": kind, "name": known, "samples": left, "drop_last": False, "batch": ahead,
                "place": seen.place,
            },
        }  # fmt: skip
        self._teller.tell(message, self._parts(*rest))
        seen.place, seen.row, seen.left = "more", row, left
        seen.look_at = seen.drawn + left + 1

    def _of_library(self, things: list[Any]) -> tuple[Any, Any]:
        """Returns the same as `_found` for an iterator of a library that shards.py knows."""
        found = self._shards.coming(self._rows, things)
        if found is None or not self._files.is_ours(found.paths[found.numbers[0]]):
            return None, None
        ranges = found.ranges() if found.ranges is not None else None
        return _SHARDS, (self._files.Picked(found.paths, found.numbers), None, "", ranges)

    def _parts(
        self, values: Any, member: int | None, root: str, ranges: Any = None
    ) -> dict[str, Iterable[bytes]]:
        """Returns the parts of a message about a column: its paths, the numbers of those that it
        picks, and the ranges of them that are read."""
        parts: dict[str, Iterable[bytes]] = {}
        if isinstance(values, self._files.Picked):
            parts["indices"] = [values.chosen.tobytes()]
            values = values.values
        parts["paths"] = self._files.joined([(values, member, root)])
        if ranges:
            parts["ranges"] = [ranges.tobytes()]
        return parts

    def _by_number(self, things: list[Any]) -> tuple[Any, Any]:
        """Returns the same as `_found` for an iterator that goes through numbers. Takes them as
        those of entries of a list of paths, which something has that the iterator refers to, if
        this holds for the file that was opened last."""
        opened = self._last_opened()
        for row, position in self._rows.with_positions(things) if opened else ():
            last = _number_before(row, position)
            for values, member, root in self._columns(things, last) if last >= 0 else ():
                path = self._files.path(values, last, member, root)
                if not path or os.stat(path).st_ino != opened:
                    continue
                known, numbers = self._numbers(row, position, len(values))
                if numbers:
                    return known, (self._files.Picked(values, numbers), member, root)
        return None, None

    def _numbers(self, row: Any, position: int, count: int) -> tuple[Any, Any]:
        """Returns what distinguishes a row, and its rest as an array if that consists of numbers
        from 0 to `count` - 1; otherwise None. A range that fits is not longer than `count`."""
        rest = row[position:] if type(row) is range or len(row) <= self._rows.INDICES_MAX else ()
        if type(rest) is range:
            known: Any = rest.stop, rest.step
            ends = [rest[0], rest[-1]] if rest else [-1]
            numbers = self._rows.indices_of(rest) if 0 <= min(ends) <= max(ends) < count else None
        else:
            known, numbers = (id(row), len(row)), self._rows.indices_of(rest)
        return known, numbers if numbers and 0 <= min(numbers) <= max(numbers) < count else None

    def _columns(self, things: list[Any], least: int) -> Iterator[Any]:
        """Yields columns of more than `least` entries that attributes of `things` hold."""
        for thing in things:
            own = getattr(thing, "__dict__", None)
            lengths = {
                len(value)
                for value in (own.values() if type(own) is dict else ())
                if type(value) in (list, tuple) and len(value) > least
            }
            for length in lengths:
                yield from self._files.columns_in(own, length)

    def _found(self, things: list[Any]) -> tuple[Any, Any]:
        """Returns what distinguishes the longest list of paths that an iterator goes through, and
        the rest of the list as a column of files.py; None for both if there is no such list.
        things: what the iterator refers to."""
        found: tuple[Any, Any] = (None, None)
        texts = map(self._files.text_of, things)
        roots = ["", *[each for each in texts if each.startswith("/")][:_LOOKED_AT]]
        tries = _TRIES_MAX
        for row, position in self._rows.with_positions(things):
            longest = 0 if found[1] is None else len(found[1][0])
            plain = type(row) in (list, tuple) or type(row).__module__ == "numpy"
            if not plain or len(row) - position <= longest:
                continue
            for member in self._files.members_of(row[position]):
                for root in roots:
                    ends = [self._files.path(row, at, member, root) for at in (position, -1)]
                    tries -= all(ends)
                    if tries >= 0 and all(ends) and all(map(self._files.is_ours, ends)):
                        found = (id(row), len(row)), (row[position:], member, root)
        return found


class _Seen:
    """The state of one iterator. drawn: how many samples; look_at: at how many to look at it; row:
    the list that was announced last; left: how many entries of it; agreed: how often the files of
    numbers were right; place: how the next announcement follows those before."""

    def __init__(self, turn: Any) -> None:
        self.turn = turn
        self.pid = os.getpid()
        self.drawn = self.look_at = 0
        self.row: Any = None
        self.left = self.agreed = 0
        self.place = "first"


def _number_before(row: Any, position: int) -> int:
    """Returns the number that an iterator at `position` of a row gave last; -1 if there is none."""
    if type(row) is range:  # since Python 3.12 it begins at the position
        rest = row[position:]
        return rest.start - rest.step if rest else -1
    last = row[position - 1] if type(row) in (list, tuple) and 0 < position < len(row) else None
    return last if type(last) is int else -1
