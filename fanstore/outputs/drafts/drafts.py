"""Drafts: the objects that programs of this node are writing, until they are published or dropped.

A draft is finished when nobody can write to it any more. That is looked at when a process says that
it has closed it, when a process with a draft ends, before somebody is told what is under its name,
and now and then, as mappings go, and programs close files that the library is not in, without a
word.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence

from fanstore.outputs.drafts.draft_table import Draft, DraftTable, Ending
from fanstore.outputs.drafts.holders import GRANT_S, Holder, Says, Verdict, judge
from fanstore.outputs.drafts.watch import Process, Processes
from fanstore.outputs.model.entries import Attr, Place
from fanstore.outputs.model.interfaces import Publisher
from fanstore.outputs.objects.files import is_written, unlink
from fanstore.outputs.objects.objects import ObjectStore

_ENDING_S = 1.0  # a process seen ending has ended by then, or it was its first thread alone
_ROUND_S = 0.1
_ROUND_REST = 20  # a round takes that part of the time, at most
_APPEAR_S = 1.0
_APPEAR_POLL_S = 0.001


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
        self._processes = Processes(self._process_ended, most_fds)
        self._round: asyncio.TimerHandle | None = None

    def _taken(self, objects: Iterable[int]) -> list[Draft]:
        """Returns those of these objects that are drafts still, to be ended here alone."""
        numbers = list(objects)
        for number in numbers:
            self.take(number)
        return self.known(numbers)

    # What Operations decides.

    def begin(self, place: Place, object_id: int, pid: int) -> None:
        """Makes a draft of a new object, which a process was allowed to open for writing."""
        draft = Draft(object_id, place)
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
        for draft in self._taken((object_id,)):
            holder = draft.holders.get(pid)
            is_its_own = holder is not None and not holder.process.look()
            if draft.ending is None and attr is not None and (is_its_own or attr.size == 0):
                self._grant(draft, pid)
                return True
        return False

    def move(self, object_id: int, place: Place) -> None:
        """Notes the new place of a draft that was renamed. Does nothing when it is unknown."""
        for draft in self._taken((object_id,)):
            self._name(draft, place)

    def move_tree(self, mount: int, old: bytes, new: bytes) -> None:
        """Notes that a directory was renamed (both paths relative to the mount), with the drafts at
        any depth in it."""
        for draft in list(self._drafts.values()):
            place = draft.place.after_move(mount, old, new)
            if place != draft.place:
                self.move(draft.object_id, place)

    def _name(self, draft: Draft, place: Place) -> None:
        self._put(draft, place)
        if self.keep is not None:
            self.keep(place, draft.object_id)

    def detach(self, object_id: int) -> None:
        """Notes that a draft has no name any more: it is never published. Its holders keep it as
        the kernel keeps any file without a name. Does nothing when it is unknown."""
        for draft in self._taken((object_id,)):
            now_s = self._loop.time()
            if any(holder.may_open(now_s) for holder in draft.holders.values()):  # and make it yet
                self._loop.call_later(GRANT_S, unlink, self._store.path(object_id))
            self._forget(draft)
            self._store.discard(object_id)

    # What processes say.

    async def settle(self, pid: int, objects: Sequence[int]) -> bool:
        """Notes that a process closed its last descriptor of these drafts (none given: of some of
        its). Returns whether all of them are finished. Raises the OSError of a publication."""
        drafts = self._taken(objects or self._processes.held_by(pid))
        for draft in drafts:
            holder = draft.holders.get(pid)
            if holder is not None and objects:
                holder.closed_one(self._loop.time())
            elif holder is not None:
                holder.granted_s.clear()
        finished, errors = await self._end_finished(drafts, said=bool(objects))
        for error in errors:
            raise error
        return finished

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
        drafts = self._taken(objects or self._processes.held_by(pid))
        for draft in drafts:
            if pid in draft.holders:
                draft.holders[pid].leaves(Says.LEAVES)
        await self._end_finished(drafts)

    async def abandon(self, pid: int, objects: Sequence[int]) -> None:
        """Notes that an open which was allowed has failed, and that the process has no other
        descriptor of these drafts."""
        drafts = self._taken(objects)
        for draft in drafts:
            holder = draft.holders.get(pid)
            if holder is not None:
                del holder.granted_s[-1:]
                if not holder.granted_s:
                    self._drop_holder(draft, pid)
        await self._end_finished(drafts)

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
        await self._end_finished(self.known((object_id,)))

    async def flush(self) -> None:
        """Ends all drafts that are finished; waits a moment for processes that are about to end."""
        deadline_s = self._loop.time() + 2 * _ENDING_S
        while True:
            await self._end_finished(self._drafts.values())
            # The kernel closes what a killed process had open after it has freed its memory.
            waits = any(
                holder.process.is_ending()
                for draft in self._drafts.values()
                for holder in draft.holders.values()
            )
            if not waits or self._loop.time() > deadline_s:
                return
            await asyncio.sleep(_APPEAR_POLL_S * 10)

    def close(self) -> None:
        """Forgets all drafts: what is open by now stays unpublished."""
        self.counts["dropped"] += len(self)
        for draft in list(self._drafts.values()):
            self._forget(draft)
        if self._round is not None:
            self._round.cancel()

    def _look_at_each(self) -> None:
        """Looks at all drafts; the more seldom the longer that takes."""
        self._round = None
        begun_s = self._loop.time()
        for draft in list(self._drafts.values()):
            self._end_if_finished(draft)
        if self._drafts:
            rest_s = max(_ROUND_S, _ROUND_REST * (self._loop.time() - begun_s))
            self._round = self._loop.call_later(rest_s, self._look_at_each)

    async def _end_finished(
        self, drafts: Iterable[Draft], said: bool = False
    ) -> tuple[bool, list[OSError]]:
        """Ends those of these drafts that are finished; tells whether all were, and what failed.
        said: a process has just said that it closed them."""
        endings = [self._end_if_finished(draft, said) for draft in list(drafts)]
        tasks = [task for task in endings if task is not None]
        if tasks:
            await asyncio.wait(tasks)
        results = [task.result() for task in tasks]
        return len(tasks) == len(endings), [error for error in results if error is not None]

    def _end_if_finished(self, draft: Draft, said: bool = False) -> Ending | None:
        if draft.ending is None and self._drafts.get(draft.object_id) is draft:
            verdict = self._verdict(draft, said)
            if verdict is Verdict.WAIT:
                self._drop_killed(draft)
            elif self._taken((draft.object_id,)):
                draft.ending = self._loop.create_task(self._end(draft, verdict))
        return draft.ending

    def _verdict(self, draft: Draft, said: bool) -> Verdict:
        """Returns what is to become of a draft now; WAIT also while somebody may write to it."""
        now_s, holders = self._loop.time(), draft.holders.values()
        if not holders:
            return Verdict.DROP
        for holder in holders:
            holder.process.look()  # the loop may not have come to its end yet
        if any(holder.may_open(now_s) for holder in holders):
            return Verdict.WAIT
        try:
            written = is_written(self._store.path(draft.object_id))
        except FileNotFoundError:  # who was allowed to make it has not done so yet, or never will
            written = any(not holder.process.dead for holder in holders)
        except OSError:  # no descriptors left
            return Verdict.WAIT
        if written is None:  # the file system does not tell
            written = any(
                not holder.process.dead and holder.says is not Says.CLOSED for holder in holders
            )
        if written or said:
            return Verdict.WAIT if written else Verdict.PUBLISH
        since_s = draft.waits_since_s
        waited = since_s is not None and now_s > since_s + _ENDING_S
        verdict = judge(holders, not waited)
        if verdict is Verdict.WAIT and since_s is None:
            draft.waits_since_s = now_s
        return verdict

    async def _end(self, draft: Draft, verdict: Verdict) -> OSError | None:
        """Publishes or drops a draft; returns why that failed, as nobody may be waiting for it."""
        number = draft.object_id
        try:
            attr = self._attr(number)
            outcome = self._outcome(draft, verdict, attr)
            if attr is None or outcome in ("dropped", "unchanged"):
                with contextlib.suppress(OSError):
                    await self.publisher.release(number)
                self._store.discard(number)
            elif outcome == "published":
                await self.publisher.publish(number, attr)
            else:
                await self.publisher.publish_partial(number, attr)
                self.partials.append(number)
            self.counts[outcome] += 1
            return None
        except OSError as error:
            self.counts["failed"] += 1
            return error
        finally:
            self._forget(draft)

    def _outcome(self, draft: Draft, verdict: Verdict, attr: Attr | None) -> str:
        """Returns as what a draft is counted. One that was given up gets no name where nothing was
        written to it."""
        if attr is not None and self._store.is_unchanged(draft.object_id, attr):
            return "unchanged"
        if attr is not None and verdict is Verdict.PUBLISH:
            return "published"
        has_left_bytes = attr is not None and attr.size > 0 and bool(draft.holders)
        return "partial" if self.keep is not None and has_left_bytes else "dropped"

    def _attr(self, object_id: int) -> Attr | None:
        """Returns the attributes of a draft's file; None while it has not been made."""
        try:
            return self._store.attr(object_id)
        except FileNotFoundError:
            return None

    def _forget(self, draft: Draft) -> None:
        self._remove(draft)
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
        process = self._processes.watch(pid)
        process.holds.add(draft.object_id)
        holder = draft.holders.get(pid)
        if holder is None or holder.process is not process:
            holder = draft.holders[pid] = Holder(process)
        return holder

    def _drop_holder(self, draft: Draft, pid: int) -> None:
        process = draft.holders.pop(pid).process
        process.holds.discard(draft.object_id)
        if not process.holds:
            self._processes.forget(process)

    def _drop_killed(self, draft: Draft) -> None:
        """Forgets holders that were killed, where others answer for what they held."""
        for pid, holder in list(draft.holders.items()):
            if holder.process.dead and not holder.left and len(draft.holders) > 1:
                self._drop_holder(draft, pid)

    def _process_ended(self, process: Process) -> None:
        """Looks at the drafts of a process that has ended."""
        for draft in self._taken(process.holds):
            self._end_if_finished(draft)
