"""Stage-out: what programs publish appears in the output directory, in their order.

Each rank has a line of names in which something changed. One worker takes them one by one and asks
the home rank of each to make it in the output directory what it is by then (reconcile.py), for
which the rank that has the bytes supplies a copy (supply.py). While the output directory as a whole
does not take anything the line waits, so that nothing comes before what was published before it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import threading
import time
from collections.abc import Iterable
from typing import Any

from fanstore.errors import SHOWN_MAX
from fanstore.outputs.model.entries import Entry, Place, home_rank_of
from fanstore.outputs.model.name_tables import NameTables
from fanstore.outputs.objects.objects import ObjectStore
from fanstore.outputs.stageout.accounts import Accounts
from fanstore.outputs.stageout.journal import Journal
from fanstore.outputs.stageout.placing import OutputDirectory
from fanstore.outputs.stageout.reconcile import Reconciled, Reconciler
from fanstore.outputs.stageout.supply import AHEAD, TOGETHER, Supplier
from fanstore.peers.interface import Peers

_PAUSE_FIRST_S = 0.25
_PAUSE_MOST_S = 15.0
_PAUSE_MOST_AT_END_S = 2.0
_TIDY_UP_S = 1.0
_CALM_S = 0.01  # programs that do nothing for so long are not in a hurry
_ASIDE_S = 0.1
_BEHIND_MOST_S = 5.0
_AHEAD_SLOWLY = 8  # files that are copied early while programs go first
_NAMES = "the names of what is there"


class StageOut:
    """Stage-out on this rank; an Observer (model/interfaces.py) of what its programs do. Its
    methods are for the outputs thread, unless they say otherwise."""

    def __init__(
        self,
        peers: Peers,
        name_tables: NameTables,
        objects: ObjectStore,
        directory: OutputDirectory,
        journal: Journal,
        wait_s: float,
    ) -> None:
        """wait_s: how long, at the end, the first name that fails is tried again."""
        self._wait_s = wait_s
        self._peers = peers
        self._name_tables = name_tables
        self._objects = objects
        self._directory = directory
        self._journal = journal
        self._supplier = Supplier(objects, journal, directory)
        self._reconciler = Reconciler(peers, name_tables, directory)
        self._accounts = Accounts(peers, name_tables, objects, directory, journal, self._supplier)
        self._line: dict[Place, None] = {}
        self._busy: dict[Place, None] = {}  # taken from the line, and not done with
        self._came: set[Place] = set()  # directories that were moved there
        self._running = set(range(peers.world_size))  # ranks whose programs may run
        self._asked_s = 0.0
        self._behind_since_s = 0.0
        self._failed: dict[Place, str] = {}  # with the reasons
        self._undone: list[tuple[str, str]] = []
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._hurried = asyncio.Event()
        self._blocked = ""
        self._attempt = 0  # of the first name that waits, as the next one is
        self._until_s: float | None = None  # it is tried, at the end
        self._exhausted = False
        self._given_up = False
        self._worker: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[list[tuple[str, str]]] | None = None
        peers.serve("supply", lambda _, wanted: self._supplier.supply(wanted))
        peers.serve("programs_ended", self._programs_ended)
        peers.serve("names_in", lambda _, *key: [name for name, _ in name_tables.list(*key)])
        peers.on_lost(self._rank_lost)

    def start(self) -> None:
        """Begins to place outputs."""
        self._worker = asyncio.get_running_loop().create_task(self._work())

    def asked(self) -> None:
        """Notes that a program asks for something, or changed names itself: it goes first for a
        moment."""
        self._asked_s = time.monotonic()

    def together(self) -> contextlib.AbstractContextManager[None]:
        """Has all that is told within be noted at once, at the end."""
        return self._journal.together()

    def published(self, place: Place, entry: Entry) -> None:
        """Queues a file of this rank that has got its name and its final bytes."""
        self._accounts.published(place, entry)
        self._queue(place)

    def changed(self, place: Place) -> None:
        """Queues a name that stands for something else now, or for nothing."""
        self._accounts.changed(place)
        self._queue(place)

    def moved(self, place: Place) -> None:
        """Queues a directory that has come there, with all that is in it: also where it was before,
        and only what was in it has left."""
        self._came.add(place)
        self._accounts.changed(place, True)
        self._queue(place)

    def drafted(self, place: Place, object_id: int) -> None:
        """Notes that a program of this rank is writing a file."""
        self._journal.draft(object_id, place)

    def stranded(self, place: Place, entry: Entry) -> None:
        """Queues a file of this rank whose home rank is lost: this rank places it by itself."""
        self.published(place, entry)

    def discarded(self, object_id: int) -> None:
        """Notes that an object of this rank is gone, and ends its copy."""
        self._accounts.discarded(object_id)

    def placed_path(self, object_id: int) -> bytes | None:
        """Returns where this rank placed an object, if that is still there."""
        return self._reconciler.path_of(object_id)

    async def flush(self) -> None:
        """Waits until all that was published so far is placed, or cannot be. What other ranks'
        programs renamed is for those to flush."""
        self._hurried.set()
        for rank in range(self._peers.world_size):
            self._peers.tell(rank, "programs_ended")
        while not self._given_up and (self._line or self._busy):
            self._empty.clear()
            await self._empty.wait()
        if not self._given_up:  # other ranks may be gone when it comes to the account
            self._undone = await self._not_removed()
            await self._reconciler.learn_times()

    def _programs_ended(self, rank: int) -> None:
        self._running.discard(rank)
        if not self._running:
            self._supplier.unused()

    def give_up(self) -> None:
        """Ends `flush` now, and what `account` waits for; nothing more is placed."""
        self._given_up = True
        self._supplier.give_up()
        for task in (self._worker, self._ending):
            if task is not None:
                task.cancel()
        self._empty.set()

    async def account(self, unstaged: str, partials: Iterable[int] = ()) -> dict[str, Any]:
        """Returns what became of everything, with `figures`; what is not in the output directory is
        moved to `unstaged`. To be called after all ranks have flushed. partials: objects to be
        named, as their writers were killed."""
        failed = self._undone
        if not self._given_up and self._reconciler.has_placed():
            self._ending = asyncio.get_running_loop().create_task(self._end_names())
            await asyncio.wait([self._ending])
            late = (_NAMES, "not synced: not waited for")
            failed = failed + ([late] if self._ending.cancelled() else self._ending.result())
        settled = self._accounts.settle(self._reconciler, unstaged, self._reason, partials)
        settled["unplaced"] = (settled["unplaced"] + failed)[:SHOWN_MAX]
        settled["unplaced_count"] += len(failed)
        return {**self.figures(), **settled}

    async def _not_removed(self) -> list[tuple[str, str]]:
        """Returns the names that ought to be gone and are not, and why."""
        found = []
        for place, reason in list(self._failed.items()):
            with contextlib.suppress(OSError):
                if await self._peers.call(self._home_rank_of(place), "home.entry", place) is None:
                    shown = self._directory.shown(place)
                    found.append((shown, f"is there still: {reason}"))
        return found

    async def _end_names(self) -> list[tuple[str, str]]:
        """Ends the work on names, without other ranks; returns what failed, and why."""
        await self._reconciler.seal()
        try:
            await self._reconciler.sync()
        except OSError as error:
            return [(_NAMES, f"not synced: {error.strerror}")]
        return []

    def close(self) -> None:
        """Ends the threads; waits only for small copies that were begun early, and not long where
        it was given up: the file system may hang then."""
        if self._worker is not None:
            self._worker.cancel()
        self._reconciler.close()
        tidying = threading.Thread(target=self._tidy_up, daemon=True)
        tidying.start()
        tidying.join(_TIDY_UP_S if self._given_up else None)
        self._journal.close()

    def _tidy_up(self) -> None:
        """Removes what is unfinished in the output directory, and copies for which no name came as
        it was given up."""
        self._supplier.close()
        self._directory.clear_scratch()

    def figures(self) -> dict[str, Any]:
        """Returns counts for people; may be called from any thread. blocked: why nothing can be
        placed now, or ""."""
        in_line = len(self._line) + len(self._busy)
        return {**self._accounts.figures(in_line), "blocked": self._blocked}

    def _queue(self, place: Place) -> None:
        """Puts a name at the end of the line; one that waits already stays where it is."""
        self._line.setdefault(place)
        self._filled.set()

    async def _work(self) -> None:
        took_s = 0.0
        while True:
            if not self._line and not self._busy:
                self._filled.clear()
                self._empty.set()
                await self._filled.wait()
                self._behind_since_s = time.monotonic()
            many = await self._step_aside(took_s)
            begun_s = time.monotonic()
            for place in list(itertools.islice(self._line, TOGETHER - len(self._busy))):
                self._busy[place] = None
                del self._line[place]
            if not self._blocked:  # what takes room must not be in the way of what needs it
                self._supplier.begin(AHEAD if many else _AHEAD_SLOWLY)
            some = self._at_once(self._busy if many else itertools.islice(self._busy, 1))
            try:
                results = await self._make_so(some)
            except Exception as error:  # one name's mistake must not lose the others
                reason = f"{type(error).__name__}: {error}"
                results = [Reconciled(errno.EIO, reason, final=True)]
            took_s = time.monotonic() - begun_s
            for place, done in zip(some, results, strict=False):
                if done.error and not self._is_last(done):
                    self._blocked = done.reason
                    await self._pause()
                else:
                    self._done_with(place, done)

    def _at_once(self, places: Iterable[Place]) -> list[Place]:
        """Returns the first of these names, as many as can be placed together."""
        found = list(itertools.islice(places, TOGETHER))
        home_rank = self._home_rank_of(found[0])
        return list(itertools.takewhile(lambda p: self._home_rank_of(p) == home_rank, found))

    def _done_with(self, place: Place, done: Reconciled) -> None:
        del self._busy[place]
        self._attempt, self._until_s = 0, None
        if done.error:
            self._failed[place] = done.reason
        else:
            self._failed.pop(place, None)
            self._blocked = ""

    def _is_last(self, done: Reconciled) -> bool:
        """Tells whether a name that failed is given up. While programs run none is that may come
        yet. At the end the first name that fails is tried for a while, every later one once."""
        now_s = time.monotonic()
        if self._hurried.is_set() and self._until_s is None:
            self._attempt, self._until_s = 0, now_s + self._wait_s
        self._exhausted |= self._until_s is not None and now_s >= self._until_s
        return done.final or self._exhausted

    async def _pause(self) -> None:
        pause_s = _PAUSE_FIRST_S * 2.0 ** min(self._attempt, 10)
        self._attempt += 1
        if self._hurried.is_set():
            await asyncio.sleep(min(_PAUSE_MOST_AT_END_S, pause_s, self._wait_s))
            return
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._hurried.wait(), min(_PAUSE_MOST_S, pause_s))

    async def _step_aside(self, took_s: float) -> bool:
        """Waits a moment while programs ask for one thing after the other: their answers come from
        this thread, too. Once the line has not been empty for some seconds, stage-out takes half of
        the time. took_s: what the last names took. Returns whether many may be taken now."""
        now_s = time.monotonic()
        behind = now_s - self._behind_since_s > _BEHIND_MOST_S
        until_s = now_s + (min(took_s, _ASIDE_S) if behind else _ASIDE_S)
        while not self._hurried.is_set() and self._asked_s + _CALM_S > now_s < until_s:
            await asyncio.sleep(min(_CALM_S, until_s - now_s))
            now_s = time.monotonic()
        return behind or self._hurried.is_set() or self._asked_s + _CALM_S <= now_s

    async def _make_so(self, places: list[Place]) -> list[Reconciled]:
        """Places the first of these names, of one home rank, and those that came with it where it
        is a directory; returns what that led to, for one at least."""
        first = places[0]
        came = first in self._came
        self._came.discard(first)
        results = await self._make_some_so(places[:1] if came else places)
        if results[0].error and came:
            self._came.add(first)
        inside = await self._inside(first) if results[0].descend or came else []
        while inside:
            some = self._at_once(inside)
            found = await self._make_some_so(some)
            inside = inside[len(found) :]
            for place, done in zip(some, found, strict=False):
                if done.error:
                    self._queue(place)  # to be dealt with like any other
                if done.descend or came:
                    inside = await self._inside(place) + inside
        return results

    async def _make_some_so(self, places: list[Place]) -> list[Reconciled]:
        """Places the first of these names. Where one was a directory that goes, all that was placed
        in it goes first; where one of its parents was something else that another rank has still to
        remove, that goes first."""
        results = await self._reconcile(places)
        place, done = places[0], results[0]
        if done.parents:
            for parent in _parents(place):
                if (await self._make_so([parent]))[0].error:
                    self._queue(parent)
        if done.clear or done.review:
            below = await self._all_placed_below(place)
            for each in sorted(below, key=lambda found: -found.path.count(b"/")):
                await self._reconcile([each], True)
        return await self._reconcile([place], True) if done.clear or done.parents else results

    async def _inside(self, place: Place) -> list[Place]:
        """Returns the names in a directory, without those that are in the line themselves."""
        home_rank = home_rank_of(place.mount, place.path, self._peers.world_size)
        names = await self._ask(home_rank, "names_in", place.mount, place.path)
        found = [Place(place.mount, place.path, name) for name in names]
        return [p for p in found if p not in self._line and p not in self._busy]

    async def _reconcile(self, places: list[Place], force: bool = False) -> list[Reconciled]:
        home_rank = self._home_rank_of(places[0])
        try:
            return list(await self._peers.call(home_rank, "reconcile", places, force))
        except OSError as error:
            if self._peers.is_lost(home_rank):
                return [await self._bring_own(places[0])]
            return [Reconciled(error.errno or errno.EIO, str(error.strerror))]

    async def _bring_own(self, place: Place) -> Reconciled:
        """Places an object of this rank under a name whose home rank is lost."""
        object_id = self._accounts.waiting().get(place)
        if object_id is None:
            return Reconciled()
        try:
            attr = self._objects.attr(object_id)
        except OSError as error:
            return Reconciled(error.errno or errno.EIO, str(error.strerror))
        return await self._reconciler.bring_own(place, object_id, attr)

    async def _all_placed_below(self, place: Place) -> list[Place]:
        """Asks all ranks at once."""
        asked = [
            self._ask(rank, "placed_below", place.mount, place.path)
            for rank in range(self._peers.world_size)
        ]
        return [found for answer in await asyncio.gather(*asked) for found in answer]

    async def _ask(self, rank: int, name: str, *args: Any) -> list[Any]:
        """Returns a list from another rank; an empty one if that is lost."""
        try:
            return list(await self._peers.call(rank, name, *args))
        except OSError:
            return []

    def _home_rank_of(self, place: Place) -> int:
        return home_rank_of(place.mount, place.directory, self._peers.world_size)

    def _rank_lost(self, rank: int) -> None:
        """Queues the objects of this rank whose home rank was the lost one: this rank places
        them."""
        self._programs_ended(rank)
        for place in self._accounts.waiting():
            if self._home_rank_of(place) == rank:
                self._queue(place)

    def _reason(self, place: Place) -> str:
        """Returns why a name was not placed."""
        return self._failed.get(place) or self._blocked or "not waited for"


def _parents(place: Place) -> list[Place]:
    """Returns the directories that a name lies in, outermost first."""
    parts = place.directory.split(b"/") if place.directory else []
    return [Place(place.mount, b"/".join(parts[:n]), part) for n, part in enumerate(parts)]
