"""The outputs of one rank while a job runs, in a thread of their own: stage-out and, if there are
other ranks, the answers to programs about names that those ranks keep."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fanstore._native import ffi
from fanstore.dataset import Dataset
from fanstore.errors import SHOWN_MAX, FanstoreError
from fanstore.messages.figures import OutputAccount, OutputFigures
from fanstore.messages.message import values_of
from fanstore.outputs.model.entries import Identity
from fanstore.outputs.ranks.ranks import Ranks
from fanstore.outputs.tree.dead_job import NOT_WAITED_FOR
from fanstore.outputs.tree.end import keep_the_rest
from fanstore.outputs.tree.inputs import Inputs
from fanstore.outputs.tree.passes import GivenUpError
from fanstore.outputs.tree.placed import FILE, Header, Placed
from fanstore.outputs.tree.shared import Shared
from fanstore.outputs.tree.taking_up import TakingUp
from fanstore.outputs.tree.uploads import stage_out_of
from fanstore.outputs.tree.walk import take_stock

LOCK = ".fanstore-continued"  # locked by the only job that continues with an output directory
_LOOK_S = 0.1
_SHARE = 10  # the pause after a pass, as a multiple of the time that it took to find work
_PAUSE_FIRST_S = 0.1
_PAUSE_MOST_S = 10.0
_PAUSE_MOST_AT_END_S = 1.0
_WAIT_S = 10.0
_TIDY_UP_S = 1.0
_PASSES = "fanstore-stage-out"
_ANSWER_S = 10.0


@dataclass(frozen=True)
class MountedDataset:
    """A dataset and its mount. prefixes: the mount prefix first, then other spellings."""

    dataset: Dataset
    prefixes: tuple[bytes, ...]


@dataclass(frozen=True)
class Taken:
    """The outputs of an earlier run with which a rank continues. touched: (mount, record) of each
    directory of the dataset that contains some."""

    files: int
    bytes: int
    touched: list[tuple[int, int]]


class OutputService:
    """The service for outputs. Start it once the job's segment exists, and close it before the
    job's directory is removed. Its methods are for one thread other than the service's own, unless
    they say otherwise."""

    def __init__(
        self, directory: str, header: Header, roots: list[tuple[bytes, bytes]],
        prefixes: Sequence[str], wait_s: float,
    ) -> None:  # fmt: skip
        """directory: the job's. roots: as for take_stock. prefixes: of the mounts. wait_s: how long
        to retry, at the end, to place outputs that cannot be placed."""
        self._wait_s = wait_s
        self._placed = Placed(os.path.join(directory, FILE), header)
        self._shared = Shared(os.path.join(directory, "segment"))
        self._ended = ffi.new("int32_t *")
        self._roots = roots
        self._prefixes = prefixes
        self._target, self._stage_out = stage_out_of(
            header, roots, self._placed, self._shared, self._ended
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="fanstore-outputs", daemon=True
        )
        self._worker: concurrent.futures.Future[Any] | None = None
        self._blocked = ""
        self._closed = self._flushing = False
        self._lock: int | None = None
        self._ranks: Ranks | None = None

    def take_up(
        self,
        inputs: Sequence[Inputs],
        keeps: Callable[[int, bytes], bool],
        lock: int | None,
        check: Callable[[], None],
    ) -> Taken:
        """Continues with the content of the output directory; call it before `start`. inputs: of
        each mount. keeps: as for TakingUp.run, with the mount as first argument. lock: a descriptor
        that holds LOCK in the output directory, closed with the service. check: raises to end the
        work. Raises OSError."""
        self._lock = lock
        taking_up = TakingUp(self._target, self._placed, self._shared, check)
        touched: list[tuple[int, int]] = []
        for mount, (folder, root) in enumerate(self._roots):
            records = taking_up.run(folder, root, inputs[mount], partial(keeps, mount))
            touched += [(mount, record) for record in records]
        return Taken(taking_up.files, taking_up.bytes, touched)

    def start(self, ranks: Ranks | None) -> None:
        """Begins to place outputs, and to answer programs if there are other ranks. Raises
        FanstoreError or OSError; call `close` afterwards in any case."""
        self._thread.start()
        if ranks is not None:
            self._ranks = ranks
            self._stage_out.take = self._take
            self._do(ranks.open(self._shared, self._stage_out.give))
        self._worker = self.submit(self._work())

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs a coroutine in the service's thread. Raises FanstoreError if it takes too long."""
        future = self.submit(work)
        try:
            return future.result(_ANSWER_S)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise FanstoreError("the daemon's thread for outputs does not answer") from None

    def _take(self, name: bytes, identity: Identity) -> bool:
        """Returns whether another rank of this job placed the file that is in the way of an output;
        the file then belongs to this rank."""
        assert self._ranks is not None
        with contextlib.suppress(FanstoreError, OSError):
            return bool(self._do(self._ranks.take(name, identity)))
        return False

    def submit(self, work: Coroutine[Any, Any, Any]) -> concurrent.futures.Future[Any]:
        """Runs a coroutine in the service's thread. May be called from any thread until the service
        is closed."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def give_up(self) -> None:
        """Ends `flush`, and the waits of `account`: outputs that are not placed by now stay
        unplaced. May be called from any thread."""
        self._ended[0] = 1

    async def _pass(self, last: bool, force: bool = False) -> None:
        """Runs one pass. Returns early if it is given up, even if it hangs. Raises OSError. The
        pass runs in a daemon thread, for which the end of the process does not wait."""
        ran: concurrent.futures.Future[None] = concurrent.futures.Future()

        def run() -> None:
            try:
                self._stage_out.run(last, force)
                ran.set_result(None)
            except BaseException as error:
                ran.set_exception(error)

        threading.Thread(target=run, name=_PASSES, daemon=True).start()
        running = asyncio.wrap_future(ran)
        while not running.done() and not self._ended[0]:
            await asyncio.wait([running], timeout=_LOOK_S)
        if running.done():
            with contextlib.suppress(GivenUpError):
                running.result()
                self._blocked = ""

    async def _work(self) -> None:
        """Runs a pass after each change, and another one later, because a program counts a change
        before it makes it."""
        seen, attempt, again = 0, 0, False
        while not self._flushing and not self._ended[0]:
            changes = self._shared.changes()
            due = changes != seen or again or self._stage_out.result.busy or self._blocked
            if not due:
                await asyncio.sleep(_LOOK_S)
                continue
            try:
                await self._pass(last=False)
                seen, attempt, again = changes, 0, changes != seen
                pause_s = max(_LOOK_S, _SHARE * self._stage_out.stock_s)
            except OSError as error:
                self._blocked = str(error.strerror)
                pause_s = min(_PAUSE_MOST_S, _PAUSE_FIRST_S * 2.0**attempt)
                attempt += 1
            await self._sleep(pause_s)

    async def _sleep(self, pause_s: float) -> None:
        until_s = time.monotonic() + pause_s
        while time.monotonic() < until_s and not self._flushing and not self._ended[0]:
            await asyncio.sleep(min(_LOOK_S, pause_s))

    async def flush(self) -> None:
        """Waits until every output is placed, or cannot be. The programs must have ended. For
        `submit`."""
        self._flushing = True
        self._stage_out.count()  # also counts outputs that the running pass has not seen
        assert self._worker is not None
        await asyncio.wait([asyncio.wrap_future(self._worker)])
        until_s, attempt = time.monotonic() + self._wait_s, 0
        while not self._ended[0]:
            force = time.monotonic() >= until_s
            try:
                await self._pass(True, force)
                self._target.sync()
            except OSError as error:
                self._blocked = str(error.strerror)
                if force:
                    return
                pause_s = min(_PAUSE_MOST_AT_END_S, _PAUSE_FIRST_S * 2.0**attempt, self._wait_s)
                attempt += 1
                await asyncio.sleep(pause_s)
                continue
            return

    async def account(self, unstaged: str) -> OutputAccount:
        """Returns the account of all outputs, at the end. Moves those that are not placed to
        `unstaged`. For `submit`."""
        # Other ranks may have written after flush.
        if self._ranks is not None and not self._blocked:
            with contextlib.suppress(OSError):
                await self._pass(True, True)
                self._target.sync()
        lost = self._lost()
        kept = keep_the_rest(self._roots, self._placed, self._shared, self._reason, unstaged)
        partials = sorted(os.fsdecode(each) for each in self._stage_out.result.partials)
        undone = [
            (os.fsdecode(name), why)
            for name, why in self._stage_out.result.failed.items()
            if name in self._placed.copies
        ]
        unplaced = sorted(kept.files) + sorted(undone)
        backups = self._target.backups
        return OutputAccount(
            **values_of(self.figures()),
            unplaced=unplaced[:SHOWN_MAX],
            unplaced_count=len(unplaced),
            kept=unstaged if kept.files else "",
            partials=partials[:SHOWN_MAX],
            partial_count=len(partials),
            lost=lost[:SHOWN_MAX],
            lost_count=len(lost),
            backups=backups[:SHOWN_MAX],
            backup_count=len(backups),
        )

    def _lost(self) -> list[str]:
        """Returns the names that this rank keeps whose files were on lost ranks and are not placed.
        Cleaning up after those ranks may still place them."""
        if self._ranks is None:
            return []
        pointers = take_stock(self._roots, lift=False).pointers
        gone = [name for name, rank in pointers.items() if self._ranks.is_lost(rank)]
        with contextlib.suppress(OSError):  # if nobody can tell, all are named
            gone = [name for name in gone if self._target.look(name) is None]
        return sorted(map(os.fsdecode, gone))

    def _reason(self, name: bytes) -> str:
        """Returns why a name was not placed."""
        if name in self._stage_out.result.failed:
            return self._stage_out.result.failed[name]
        if name in self._stage_out.result.busy and not self._ended[0]:
            return "somebody is still writing it"
        return self._blocked or NOT_WAITED_FOR

    def figures(self) -> OutputFigures:
        """Returns counts for people. May be called from any thread."""
        result, stage_out = self._stage_out.result, self._stage_out
        waiting = dict(result.waiting)
        return OutputFigures(
            output_dir=os.fsdecode(self._target.root),
            published=result.finished + len(waiting) + stage_out.gone,
            staged=result.finished,
            staged_bytes=result.finished_bytes,
            gone=stage_out.gone,
            waiting=len(waiting),
            waiting_bytes=sum(waiting.values()),
            copied_bytes=stage_out.copied_bytes,
            drafts=len(result.busy),
            unfinished=self._unfinished(),
            blocked=self._blocked,
        )

    def _unfinished(self) -> list[str]:
        """Returns the paths, in the mounts, of files that a process still writes although all
        programs should have ended."""
        if not self._flushing:
            return []
        names = sorted(self._stage_out.result.busy & self._stage_out.result.waiting.keys())
        return [self._in_mount(each) for each in names[:SHOWN_MAX]]

    def _in_mount(self, name: bytes) -> str:
        for (folder, _), prefix in zip(self._roots, self._prefixes, strict=True):
            if not folder or name.startswith(folder + b"/"):
                return os.path.join(prefix, os.fsdecode(name[len(folder) :].lstrip(b"/")))
        return os.fsdecode(name)

    def close(self) -> None:
        """Ends the threads. Waits for the running pass, but only briefly if it was given up,
        because it may hang."""
        if self._closed:
            return
        self._closed = True
        limit_s = _TIDY_UP_S if self._ended[0] else None
        self._ended[0] = 1
        tidying = threading.Thread(target=self._tidy_up, daemon=True)
        tidying.start()
        tidying.join(limit_s)
        if self._thread.is_alive():
            if self._ranks is not None:
                with contextlib.suppress(FanstoreError, OSError):
                    self._do(self._ranks.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_WAIT_S)
        self._placed.close()
        if self._lock is not None:
            os.close(self._lock)

    def _tidy_up(self) -> None:
        """Removes FanStore's own files from the output directory."""
        for thread in threading.enumerate():
            if thread.name == _PASSES:
                thread.join()
        self._target.clear_scratch()
        if self._lock is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._target.root, os.fsencode(LOCK)))
        self._shared.close()
