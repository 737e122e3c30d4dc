"""Announces the files of a stream: an iterator that goes through a list of paths and reads each
file as it comes, such as that of an IterableDataset. Looks at what the iterator refers to between
two samples, and never advances it. See start.py."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fanstore.in_job.told import EpochTold

_OWN = 1 << 17  # epochs.py numbers its loaders below this
_DRAWN_ENOUGH = 64  # samples after which a stream without a list is reported
_ADVICE = "it can announce its files (fanstore.order)"
_NUMBERS_MIN = 16  # shorter lists of numbers are hardly those of samples
_MEMBERS_MAX = 8
_ROOTS_MAX = 8
_TRIES_MAX = 32  # the most paths looked at in one search
# How far opens may be from their place in the list, in files.
_AHEAD_MIN, _AHEAD_MAX = 64, 1024


class Streams:
    """Watches iterators. rows, files: the modules rows.py and files.py; number_in: numbers things
    in a list of weak references, as in epochs.py; kind: of the announcements; teller: sends them;
    doubted: the path of a file that the daemon makes once an order of the job has proved wrong. An
    error in any of them ends the watching."""

    def __init__(
        self,
        rows: Any,
        files: Any,
        number_in: Callable[..., Any],
        kind: str,
        teller: Any,
        doubted: str,
    ) -> None:
        self._rows = rows
        self._files = files
        self._number_in = number_in
        self._kind = kind
        self._teller = teller
        self._doubted = doubted
        self._off = False
        self._sources: list[Any] = []
        self._seen: Any = weakref.WeakKeyDictionary()

    def drawing(self, iterator: Any, owner: Any, turn: int, source: Any, name: str) -> None:
        """Call it when `iterator` is about to be asked for its next sample. owner: has one such
        iterator after the other, with another `turn` each; source: makes a new one for each epoch;
        name: for the report."""
        if self._off:
            return
        try:
            seen = self._seen.get(owner)
            if seen is None or seen.turn != turn or seen.pid != os.getpid():
                seen = self._seen[owner] = _Seen(turn)
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
        row, rest = self._found(things)
        if rest is None and seen.row is None and not os.path.exists(self._doubted):
            row, rest = self._by_number(things)
        if rest is None and seen.row is None and seen.drawn >= _DRAWN_ENOUGH:
            seen.row = ()
            self._teller.say(f"{name} goes through no list of paths; {_ADVICE}")
        if rest is None or row == seen.row:
            return
        number, _ = self._number_in(self._sources, source)
        if number < 0:
            return
        count = len(rest[0])
        known = f"{name}, its files" if self._kind == "stream" else name
        message: EpochTold = {
            "loader": _OWN + number, "dataset": _OWN + number, "workers": 0, "prefetch_factor": 1,
            "in_order": True, "files_per_sample": 1,
            "sampler": {
                "kind": self._kind, "name": known, "samples": count, "drop_last": False,
                "batch": max(_AHEAD_MIN, min(_AHEAD_MAX, count // 16)), "place": seen.place,
            },
        }  # fmt: skip
        self._teller.tell(message, {"paths": self._files.joined([rest])})
        seen.place, seen.row, seen.look_at = "more", row, seen.drawn + count + 1

    def _by_number(self, things: list[Any]) -> tuple[Any, Any]:
        """Returns the same as `_found` for an iterator that goes through numbers, if something that
        it refers to has one list of paths: the numbers are taken as those of its entries."""
        rest: Any = ()
        for row, position in self._rows.with_positions(things):
            if type(row) in (list, tuple, range) and len(row) - position > len(rest):
                rest = row[position:]
        numbers = self._rows.indices_of(rest) if len(rest) >= _NUMBERS_MIN else None
        if numbers is None or min(numbers) < 0:
            return None, None
        for thing in things:
            own = getattr(thing, "__dict__", None)
            for value in own.values() if type(own) is dict else ():
                if type(value) in (list, tuple) and len(value) > max(numbers):
                    columns = self._files.columns_in(own, len(value))
                    if len(columns) == 1:
                        values, member, root = columns[0]
                        return rest, (self._files.Picked(values, numbers), member, root)
        return None, None

    def _found(self, things: list[Any]) -> tuple[Any, Any]:
        """Returns what distinguishes the longest list of paths that an iterator goes through, and
        the rest of the list as a column of files.py; None for both if there is no such list.
        things: what the iterator refers to."""
        found: tuple[Any, Any] = (None, None)
        texts = [os.fsdecode(each) for each in things if isinstance(each, (str, os.PathLike))]
        roots = ["", *[each for each in texts if each.startswith("/")][:_ROOTS_MAX]]
        tries = _TRIES_MAX
        for row, position in self._rows.with_positions(things):
            longest = 0 if found[1] is None else len(found[1][0])
            plain = type(row) in (list, tuple) or type(row).__module__ == "numpy"
            if not plain or len(row) - position <= longest:
                continue
            for member in _members(row[position]):
                for root in roots:
                    ends = [self._files.path(row, at, member, root) for at in (position, -1)]
                    tries -= all(ends)
                    if tries >= 0 and all(ends) and all(map(self._files.is_ours, ends)):
                        found = (id(row), len(row)), (row[position:], member, root)
        return found


class _Seen:
    """The state of one iterator. drawn: how many samples; look_at: at how many to look at it; row:
    the list that was announced last; place: how the next announcement follows those before."""

    def __init__(self, turn: Any) -> None:
        self.turn = turn
        self.pid = os.getpid()
        self.drawn = self.look_at = 0
        self.row: Any = None
        self.place = "first"


def _members(entry: Any) -> list[Any]:
    """Returns the indices or keys at which an entry of a list may have a path; None: it is one."""
    if isinstance(entry, (tuple, list)):
        return list(range(min(len(entry), _MEMBERS_MAX)))
    return list(entry)[:_MEMBERS_MAX] if isinstance(entry, dict) else [None]
