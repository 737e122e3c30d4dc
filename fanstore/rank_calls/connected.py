"""Calls between the node daemons of a job, as messages through their C cores.

Everything here runs in one event loop. Messages are pickled, which is safe because only daemons of
this job send them, and cut into pieces that a core can send. All messages to a rank in one turn of
the loop are sent as one: sending costs both cores and the other loop far more than the content.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import inspect
import io
import itertools
import os
import pickle
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol

from fanstore._native import lib
from fanstore.rank_calls.peers import Peers

PIECE_BYTES = 2 << 20
_FIRST, _LAST = 1, 2


def pieces_of(message: bytes) -> Iterator[bytes]:
    """Yields the pieces of a message. The first byte of a piece holds flags: this is the first
    piece, this is the last piece."""
    end = max(len(message), 1)
    for start in range(0, end, PIECE_BYTES):
        flags = _FIRST * (start == 0) + _LAST * (start + PIECE_BYTES >= end)
        yield bytes([flags]) + message[start : start + PIECE_BYTES]


class Joiner:
    """Joins the pieces that one sender sends, in their order, into messages."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def join(self, piece: bytes) -> bytes | memoryview | None:
        """Returns the whole message if `piece` is its last, else None. A first piece drops an
        incomplete message: its sender could not send the rest."""
        flags = piece[0]
        if flags == _FIRST | _LAST:
            self._pieces.clear()
            return memoryview(piece)[1:]
        if flags & _FIRST:
            self._pieces.clear()
        self._pieces.append(piece[1:])
        if not flags & _LAST:
            return None
        message = b"".join(self._pieces)
        self._pieces.clear()
        return message


_TAKEN_AT_ONCE = 64
_SILENT_DEADLINES = int(lib.FAN_SILENT_DEADLINES)
_TICKS_A_DEADLINE = 4
_TICK_MOST_S = 0.25


class RankGone(OSError):
    """The rank that is asked is lost (EIO)."""


class Mail(Protocol):
    """Sends and receives messages of ranks; fanstore.node.core.Node implements it."""

    @property
    def message_fd(self) -> int:
        """A descriptor that is readable while `take` has a message to return."""

    def post(self, rank: int, data: bytes) -> None:
        """Sends `data` to a rank, after everything sent to it before. Raises OSError."""

    def take(self) -> tuple[int, bytes] | None:
        """Returns the next received message as (sender, data), or None."""

    def is_lost(self, rank: int) -> bool:
        """Returns whether a rank counts as lost."""

    def lose(self, rank: int) -> None:
        """Makes a rank count as lost from now on."""


class _Other:
    """The state of this rank's connection to another rank. heard_s: when a message last came from
    it, or when a call began to wait for it. outgoing: messages to send in this turn of the loop,
    each with its kind and number."""

    def __init__(self) -> None:
        self.outgoing: list[tuple[bytes, str, int]] = []
        self.calls: dict[int, asyncio.Future[Any]] = {}
        self.joiner = Joiner()
        self.lost = False
        self.heard_s = 0.0
        self.pinged_s = 0.0


class ConnectedPeers(Peers):
    """Implements Peers for a rank in a job of several. Register the functions with `serve`, then
    call `start`."""

    def __init__(self, rank: int, world_size: int, mail: Mail, deadline_s: float) -> None:
        """deadline_s: a rank is lost if it owes an answer and sends nothing for three times as
        long."""
        super().__init__(rank, world_size)
        self._mail = mail
        self._deadline_s = deadline_s
        self._tick_s = min(_TICK_MOST_S, deadline_s / _TICKS_A_DEADLINE)
        self._others = [_Other() for _ in range(world_size)]
        self._on_lost: list[Callable[[int], None]] = []
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = 0  # calls of other ranks that wait for their task to begin
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begins to answer calls of other ranks, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._mail.message_fd, self._receive)
        self._start(self._watch())

    def close(self) -> None:
        """Stops answering. Pending calls fail with EIO. May be called before `start`."""
        if self._loop is None:
            return
        self._loop.remove_reader(self._mail.message_fd)
        for rank in range(self.world_size):
            self._post(rank)
        self._loop = None
        for task in self._tasks:
            task.cancel()
        for rank, other in enumerate(self._others):
            self._fail_calls(rank, other)

    async def call(self, rank: int, name: str, *args: Any) -> Any:
        """Calls the function `name` of a rank and returns its result, or raises the OSError that it
        raises. Raises RankGone (EIO) if the rank is lost."""
        if rank == self.rank:
            return await super().call(rank, name, *args)
        other = self._others[rank]
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        self._send(rank, ("call", number, name, args))
        if not other.calls:
            other.heard_s = loop.time()
        future = other.calls[number] = loop.create_future()
        try:
            return await future
        finally:
            other.calls.pop(number, None)

    def tell(self, rank: int, name: str, *args: Any) -> None:
        """Calls the function `name` of a rank without waiting for an answer; does nothing if the
        rank is lost. A function of this rank itself runs at once, a coroutine as a task."""
        if rank == self.rank:
            result = self._functions[name](rank, *args)
            if inspect.isawaitable(result):
                self._start(_finish(name, result))
            return
        self._send_surely(rank, ("tell", 0, name, args))

    def is_lost(self, rank: int) -> bool:
        """Returns whether that rank has died, or has been silent for so long that it counts as
        dead."""
        other = self._others[rank]
        if not other.lost and rank != self.rank and self._mail.is_lost(rank):
            self._lose(rank)
        return other.lost

    def on_lost(self, callback: Callable[[int], None]) -> None:
        """Makes the loop call callback(rank) once for each rank that is lost from now on."""
        self._on_lost.append(callback)

    # ---- sending ----

    def _send(self, rank: int, message: tuple[Any, ...]) -> None:
        """Adds a message to those sent at the end of this turn of the loop. Raises RankGone, and
        the errors of pickling."""
        if self.is_lost(rank) or self._loop is None:
            raise _gone(rank)
        outgoing = self._others[rank].outgoing
        if not outgoing:
            self._loop.call_soon(self._post, rank)
        kind, number, *_ = message
        outgoing.append((pickle.dumps(message, pickle.HIGHEST_PROTOCOL), kind, number))

    def _send_surely(self, rank: int, message: tuple[Any, ...]) -> None:
        with contextlib.suppress(RankGone):
            self._send(rank, message)

    def _post(self, rank: int) -> None:
        together, self._others[rank].outgoing = self._others[rank].outgoing, []
        if together:
            self._post_all(rank, together)

    def _post_all(self, rank: int, together: list[tuple[bytes, str, int]]) -> None:
        """Sends several messages as one message, or one by one if memory is short."""
        try:
            for piece in pieces_of(b"".join(message for message, _, _ in together)):
                self._mail.post(rank, piece)
        except OSError as error:
            if error.errno == errno.EREMOTEIO:
                self._lose(rank)
            elif error.errno == errno.ESHUTDOWN:
                self._fail_calls(rank, self._others[rank])
            elif len(together) == 1:
                self._not_sent(rank, *together[0][1:], error)
            else:
                for each in together:
                    self._post_all(rank, [each])

    def _not_sent(self, rank: int, kind: str, number: int, error: OSError) -> None:
        """Handles a message that could not be sent: fails its call, answers with an error, or
        counts the rank as lost. Otherwise that rank would wait forever, or not run the call."""
        if kind == "answer":
            self._send_surely(rank, ("error", number, error))
        elif kind != "call":
            _log("a message", error)
            self._lose(rank)
        elif number in self._others[rank].calls:
            _fail(self._others[rank].calls[number], error)

    def _send_answer(self, rank: int, number: int, result: Any) -> None:
        """Sends the result of a call. If it cannot be sent, sends the error."""
        try:
            self._send(rank, ("answer", number, result))
        except RankGone:
            pass
        except Exception as error:
            self._send_surely(rank, ("error", number, _told("an answer", error)))

    # ---- receiving ----

    def _receive(self) -> None:
        for _ in range(_TAKEN_AT_ONCE):
            taken = self._mail.take()
            if taken is None:
                return
            rank, piece = taken
            other = self._others[rank]
            if other.lost:
                continue
            other.heard_s = asyncio.get_running_loop().time()
            whole = other.joiner.join(piece)
            if whole is not None:
                stream = io.BytesIO(whole)
                while stream.tell() < len(whole):
                    self._hear(rank, pickle.load(stream))

    def _hear(self, rank: int, message: tuple[Any, ...]) -> None:
        kind, number, *rest = message
        if kind == "ping":
            self._send_surely(rank, ("pong", 0))
        elif kind in ("call", "tell"):
            name, args = rest
            if self._waiting:  # calls must begin in the order in which they arrived
                self._waiting += 1
                self._start(self._begin_later(rank, kind == "call", number, name, args))
            else:
                self._begin(rank, kind == "call", number, name, args)
        elif kind in ("answer", "error"):
            future = self._others[rank].calls.get(number)
            if future is not None and not future.done():
                (future.set_result if kind == "answer" else future.set_exception)(rest[0])

    def _begin(
        self, rank: int, wanted: bool, number: int, name: str, args: tuple[Any, ...]
    ) -> None:
        """Runs a called function. Answers at once, without a task, if it returns no coroutine."""
        try:
            result = self._functions[name](rank, *args)
        except Exception as error:
            self._refuse(rank, wanted, number, name, error)
            return
        if inspect.isawaitable(result):
            self._waiting += 1
            self._start(self._answer_later(rank, wanted, number, name, result))
        elif wanted:
            self._send_answer(rank, number, result)

    async def _begin_later(self, *call: Any) -> None:
        self._waiting -= 1
        self._begin(*call)

    async def _answer_later(
        self, rank: int, wanted: bool, number: int, name: str, work: Awaitable[Any]
    ) -> None:
        self._waiting -= 1
        try:
            result = await work
        except Exception as error:
            self._refuse(rank, wanted, number, name, error)
            return
        if wanted:
            self._send_answer(rank, number, result)

    def _refuse(self, rank: int, wanted: bool, number: int, name: str, error: Exception) -> None:
        if wanted:
            self._send_surely(rank, ("error", number, _told(name, error)))
        else:
            _log(name, error)

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- who is there ----

    async def _watch(self) -> None:
        """Counts ranks as lost that owe an answer and have been silent for too long. Runs until it
        is cancelled."""
        loop = asyncio.get_running_loop()
        before_s = loop.time()
        while True:
            await asyncio.sleep(self._tick_s)
            self._receive()
            now_s = loop.time()
            # A rank cannot be blamed for silence while this rank itself was stopped.
            missed_s = max(0.0, now_s - before_s - 2 * self._tick_s)
            before_s = now_s
            for rank, other in enumerate(self._others):
                other.heard_s = min(now_s, other.heard_s + missed_s)
                if not self.is_lost(rank) and other.calls:
                    self._look_after(rank, other, now_s)

    def _look_after(self, rank: int, other: _Other, now_s: float) -> None:
        if now_s - other.heard_s > _SILENT_DEADLINES * self._deadline_s:
            self._lose(rank)
        elif now_s - max(other.heard_s, other.pinged_s) > self._deadline_s / 2:
            other.pinged_s = now_s
            self._send_surely(rank, ("ping", 0))

    def _lose(self, rank: int) -> None:
        other = self._others[rank]
        if other.lost or self._loop is None:
            return
        other.lost = True
        self._mail.lose(rank)
        self._fail_calls(rank, other)
        for callback in self._on_lost:
            self._loop.call_soon(callback, rank)

    @staticmethod
    def _fail_calls(rank: int, other: _Other) -> None:
        for future in other.calls.values():
            _fail(future, _gone(rank))


def _fail(future: asyncio.Future[Any], error: OSError) -> None:
    if not future.done():
        future.set_exception(error)


def _gone(rank: int) -> RankGone:
    return RankGone(errno.EIO, f"rank {rank} is lost")


async def _finish(name: str, result: Any) -> None:
    try:
        await result
    except Exception as error:
        _log(name, error)


def _told(name: str, error: Exception) -> OSError:
    """Returns the exception that the caller gets: an OSError unchanged; for any other exception
    EIO, after its traceback was logged."""
    if isinstance(error, OSError):
        return error
    _log(name, error)
    return OSError(errno.EIO, os.strerror(errno.EIO))


def _log(name: str, error: Exception) -> None:
    text = "".join(traceback.format_exception(error)).rstrip()
    print(f"fanstore: {name}: {text}", file=sys.stderr, flush=True)
