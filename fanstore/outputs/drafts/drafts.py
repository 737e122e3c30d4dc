"""Drafts: the objects that programs of this node are writing, until they are published or dropped.

A draft is finished when nobody can write to it any more. That is looked at when a process says that
it has closed it, when a process with a draft ends, before somebody is told what is under its name,
and now and then, as mappings go, and programs close files that the library is not in, without a
word.
"""

from __future__ import annotations

import asyncio
import contextlib
import traceback
from collections.abc import Callable, Iterable, Sequence

from fanstore.outputs.drafts.draft_table import Draft, DraftTable
from fanstore.outputs.drafts.holders import GRANT_S, Holder, Says, Verdict, judge, may_write
from fanstore.outputs.drafts.watch import Processes
from fanstore.outputs.model.entries import Attr, Place
from fanstore.outputs.model.interfaces import Publisher
from fanstore.outputs.objects.files import is_written
from fanstore.outputs.objects.objects import ObjectStore

_ENDING_S = 1.0  # a process seen ending has ended by then, or it was its first thread alone
_ROUND_S = 0.1
_ROUND_REST = 20  # a round takes that part of the time, at most
_APPEAR_S = 1.0
_APPEAR_POLL_S = 0.001
_CLOCK_STEP_NS = 1_000_000_000  # two changes further apart have different times, on any disk


class Drafts(DraftTable):
    """The drafts of this rank, and when they end. Lives in the outputs thread."""

    publisher: Publisher
    take: Callable[[int], None] = staticmethod(lambda _: None)
    """Keeps programs from publishing an object themselves, and has what they did be known."""

    keep: Callable[[Place, int], None] | None = None
    """Set where what killed writers leave is kept; is told each draft, and where it is to be
    published by now."""

    def __init__(self, store: ObjectStore, most_fds: int) -> None:
        """To be called within the running loop; `publisher` is to be set before the first draft.
        most_fds: how many descriptors it may keep open."""
        super().__init__()
        self.counts = dict.fromkeys(
            ("opened", "published", "partial", "dropped", "unchanged", "failed"), 0
        )
        self.partials: list[int] = []
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._processes = Processes(self._loop, self._process_ended, most_fds)
        self._round: asyncio.TimerHandle | None = None

    def _taken(self, objects: Iterable[int]) -> list[Draft]:
        """Returns those of these objects that are drafts still, to be ended here alone."""
        numbers = list(objects)
        for number in numbers:
            self.take(number)
        return self.known(numbers)

    def _taken_of(self, pid: int, objects: Iterable[int] = ()) -> list[Draft]:
        """Does the same; without objects with all that a process holds."""
        return self._taken(objects or self._by_pid.get(pid, ()))

    # What Operations decides.

    def begin(self, place: Place, object_id: int, pid: int) -> None:
        """Makes a draft of a new object, which a process was allowed to open for writing."""
        draft = Draft(object_id, place, self._store.original_of(object_id))
        self._drafts[object_id] = draft
        self._name(draft, place)
        self.counts["opened"] += 1
        self._grant(draft, pid)
        if self._round is None:
            self._round = self._loop.call_later(_ROUND_S, self._look_at_each)

    async def join(self, object_id: int, pid: int) -> bool:
        """Tells whether one more process may open a draft for writing: one that is empty, or that
        it holds already. Waits a moment where another process is yet to make the file."""
        deadline_s = self._loop.time() + _APPEAR_S
        while (attr := self._attr(object_id)) is None and self._loop.time() < deadline_s:
            await asyncio.sleep(_APPEAR_POLL_S)
        draft = next(iter(self._taken((object_id,))), None)
        if draft is None or draft.ending is not None or attr is None:
            return False
        if pid not in draft.holders and attr.size > 0:
            return False
        self._grant(draft, pid)
        return True

    def move(self, object_id: int, place: Place) -> None:
        """Notes the new place of a draft that was renamed. Does nothing when it is unknown."""
        for draft in self._taken((object_id,)):
            self._name(draft, place)

    def move_tree(self, mount: int, old: bytes, new: bytes) -> None:
        """Notes that a directory was renamed (both paths relative to the mount), with the drafts at
        any depth in it."""
        for draft in list(self._drafts.values()):
            place = draft.place
            if place.mount == mount and (place.directory + b"/").startswith(old + b"/"):
                directory = new + place.directory[len(old) :]
                self.move(draft.object_id, Place(mount, directory, place.name))

    def _name(self, draft: Draft, place: Place) -> None:
        self._put(draft, place)
        if self.keep is not None:
            self.keep(place, draft.object_id)

    def detach(self, object_id: int) -> None:
        """Notes that a draft has no name any more: it is never published. Its holders keep it as
        the kernel keeps any file without a name. Does nothing when it is unknown."""
        for draft in self._taken((object_id,)):
            granted = any(holder.granted_s for holder in draft.holders.values())
            self._forget(draft)
            self._store.discard(object_id)
            if granted:  # it may be made yet
                self._loop.call_later(GRANT_S, self._store.discard, object_id)

    # What processes say.

    async def settle(self, pid: int, objects: Sequence[int]) -> bool:
        """Notes that a process closed its last descriptor of these drafts (none given: of some of
        its). Returns whether all of them are finished. Raises the OSError of a publication."""
        drafts = self._taken_of(pid, objects)
        for draft in drafts:
            holder = draft.holders.get(pid)
            if holder is not None and objects:
                holder.closed_one(self._loop.time())
            elif holder is not None:
                holder.granted_s.clear()
        return await self._look_at_all(drafts, bool(objects))

    def hold(self, pid: int, objects: Sequence[int]) -> None:
        """Notes one more process that holds these drafts: it answers for what its parent had, if
        that was killed before this was said."""
        for draft in self._taken(objects):
            self._holder(draft, pid).says = Says.HOLDS
            self._drop_killed(draft)

    def hand_on(self, pid: int, objects: Sequence[int]) -> None:
        """Notes that a process is about to exec and hands these drafts on to the new program."""
        for draft in self._taken(objects):
            self._holder(draft, pid).leaves(Says.HANDS_ON)

    async def leave(self, pid: int, objects: Sequence[int]) -> None:
        """Notes that a process is about to exec or exit and lets go of these drafts (none given: of
        all)."""
        drafts = self._taken_of(pid, objects)
        for draft in drafts:
            if pid in draft.holders:
                draft.holders[pid].leaves(Says.LEAVES)
        await self._try_all(drafts)

    async def abandon(self, pid: int, objects: Sequence[int]) -> None:
        """Notes that an open which was allowed has failed, and that the process has no other
        descriptor of these drafts."""
        drafts = self._taken(objects)
        for draft in drafts:
            holder = draft.holders.get(pid)
            if holder is not None and holder.granted_s:
                holder.granted_s.pop()
            if holder is not None and not holder.granted_s:
                self._drop_holder(draft, pid)
        await self._try_all(drafts)

    def published(self, object_id: int) -> None:
        """Notes that a program has published an object that it created."""
        self.counts["published"] += 1
        draft = self._drafts.get(object_id)
        if draft is None:  # it was never seen as a draft
            self.counts["opened"] += 1
        else:
            self._forget(draft)

    # The end of a draft.

    async def look(self, object_id: int) -> None:
        """Publishes or drops a draft if it is finished; waits for that when it is under way."""
        await self._try_all(self.known((object_id,)))

    async def flush(self) -> None:
        """Ends all drafts that are finished; waits a moment for processes that are about to end."""
        deadline_s = self._loop.time() + 2 * _ENDING_S
        while True:
            await self._try_all(self._drafts.values())
            waits = any(
                draft.waits_since_s is not None or self._is_let_go(draft)
                for draft in self._drafts.values()
            )
            if not waits or self._loop.time() > deadline_s:
                return
            await asyncio.sleep(_APPEAR_POLL_S * 10)

    def _is_let_go(self, draft: Draft) -> bool:
        """Tells whether a holder is about to end, and has the file open yet: the kernel closes what
        a killed process had after it has freed its memory."""
        held = [pid for pid, holder in draft.holders.items() if not holder.dead]
        return any(self._processes.is_ending(pid) for pid in held)

    def close(self) -> None:
        """Forgets all drafts: what is open by now stays unpublished."""
        self.counts["dropped"] += len(self)
        for draft in list(self._drafts.values()):
            self._forget(draft)
        self._processes.close()
        if self._round is not None:
            self._round.cancel()

    def _look_at_each(self) -> None:
        """Looks at all drafts; the more seldom the longer that takes."""
        self._round = None
        begun_s = self._loop.time()
        self._processes.poll()
        for draft in list(self._drafts.values()):
            self._end_if_finished(draft)
        if self._drafts:
            rest_s = max(_ROUND_S, _ROUND_REST * (self._loop.time() - begun_s))
            self._round = self._loop.call_later(rest_s, self._look_at_each)

    async def _try_all(self, drafts: Iterable[Draft]) -> None:
        with contextlib.suppress(OSError):
            await self._look_at_all(drafts)

    async def _look_at_all(self, drafts: Iterable[Draft], said: bool = False) -> bool:
        """Ends those of these drafts that are finished; tells whether all were. said: a process has
        just said that it closed them. Raises the first OSError, once all have been looked at."""
        endings = [self._end_if_finished(draft, said) for draft in list(drafts)]
        tasks = [task for task in endings if task is not None]
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            task.result()
        return len(tasks) == len(endings)

    def _end_if_finished(self, draft: Draft, said: bool = False) -> asyncio.Task[None] | None:
        if draft.ending is None and self._drafts.get(draft.object_id) is draft:
            verdict = self._verdict(draft, said)
            if verdict is Verdict.WAIT:
                self._drop_killed(draft)
            elif self._taken((draft.object_id,)):
                draft.ending = self._loop.create_task(self._end(draft, verdict))
                draft.ending.add_done_callback(_note)
        return draft.ending

    def _verdict(self, draft: Draft, said: bool) -> Verdict:
        """Returns what is to become of a draft now; WAIT also while somebody may write to it."""
        now_s = self._loop.time()
        if not draft.holders:
            return Verdict.DROP
        for pid, holder in draft.holders.items():
            killed = None if holder.dead else self._processes.killed(pid)
            if killed is not None:
                holder.died(killed)  # the loop has not come to it yet
        if any(holder.opens_until_s(now_s) > now_s for holder in draft.holders.values()):
            return Verdict.WAIT
        try:
            written = is_written(self._store.path(draft.object_id))
        except FileNotFoundError:  # who was allowed to make it has not done so yet, or never will
            written = any(not holder.dead for holder in draft.holders.values())
        except OSError:  # no descriptors left
            return Verdict.WAIT
        if written is None:
            written = may_write(draft.holders.values())
        if written or said:
            return Verdict.WAIT if written else Verdict.PUBLISH
        since_s = draft.waits_since_s
        waited = since_s is not None and now_s > since_s + _ENDING_S
        verdict = judge(draft.holders, (lambda _: False) if waited else self._processes.is_ending)
        if verdict is Verdict.WAIT and since_s is None:
            draft.waits_since_s = now_s
        return verdict

    async def _end(self, draft: Draft, verdict: Verdict) -> None:
        number = draft.object_id
        try:
            attr = self._attr(number)
            unchanged = attr is not None and _is_unchanged(draft.original, attr)
            if attr is None or unchanged or not self._is_kept(draft, verdict, attr):
                self.counts["unchanged" if unchanged else "dropped"] += 1
                with contextlib.suppress(OSError):
                    await self.publisher.release(number)
                self._store.discard(number)
            elif verdict is Verdict.PUBLISH:
                await self.publisher.publish(number, attr)
                self.counts["published"] += 1
            else:
                await self.publisher.publish_partial(number, attr)
                self.counts["partial"] += 1
                self.partials.append(number)
        except OSError:
            self.counts["failed"] += 1
            raise
        finally:
            self._forget(draft)

    def _is_kept(self, draft: Draft, verdict: Verdict, attr: Attr) -> bool:
        """Tells whether a changed draft gets a name; one that was given up gets none where nothing
        was written to it."""
        if verdict is Verdict.PUBLISH:
            return True
        return self.keep is not None and bool(draft.holders) and attr.size > 0

    def _attr(self, object_id: int) -> Attr | None:
        """Returns the attributes of a draft's file; None while it has not been made."""
        try:
            return self._store.attr(object_id)
        except FileNotFoundError:
            return None

    def _forget(self, draft: Draft) -> None:
        self._drafts.pop(draft.object_id, None)
        self._unplace(draft)
        for pid in list(draft.holders):
            self._drop_holder(draft, pid)

    # Processes.

    def _grant(self, draft: Draft, pid: int) -> None:
        holder = self._holder(draft, pid)
        holder.says = Says.HOLDS
        holder.granted_s.append(self._loop.time())

    def _holder(self, draft: Draft, pid: int) -> Holder:
        """Returns what is known of a process that holds a draft, and makes it a holder if it is
        none. A dead holder with this id was another process, and is replaced."""
        self._processes.watch(pid)
        self._by_pid.setdefault(pid, set()).add(draft.object_id)
        if pid not in draft.holders or draft.holders[pid].dead:
            draft.holders[pid] = Holder()
        return draft.holders[pid]

    def _drop_holder(self, draft: Draft, pid: int) -> None:
        del draft.holders[pid]
        held = self._by_pid[pid]
        held.discard(draft.object_id)
        if not held:
            del self._by_pid[pid]
            self._processes.forget(pid)

    def _drop_killed(self, draft: Draft) -> None:
        """Forgets holders that were killed, where others answer for what they held."""
        for pid, holder in list(draft.holders.items()):
            if holder.dead and not holder.left and len(draft.holders) > 1:
                self._drop_holder(draft, pid)

    def _process_ended(self, pid: int, killed: bool) -> None:
        """Looks at the drafts of a process that has ended."""
        for draft in self._taken_of(pid):
            draft.holders[pid].died(killed)
            self._end_if_finished(draft)


def _is_unchanged(original: Attr | None, attr: Attr) -> bool:
    """Whether nothing was written to a copy of the version before, and nothing else changed."""
    if original is None or original.ctime_ns - original.mtime_ns < _CLOCK_STEP_NS:
        return False
    same = ("size", "mtime_ns", "ctime_ns")
    return all(getattr(original, name) == getattr(attr, name) for name in same)


def _note(task: asyncio.Task[None]) -> None:
    """Logs what nobody foresaw in an ending draft, as nobody may have waited for it."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, OSError):
        traceback.print_exception(error)
