"""The socket for clients' requests. Each connection carries one request and one answer."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import socket
import traceback
from collections.abc import Callable, Coroutine
from io import FileIO
from typing import Any, TypeVar

from fanstore.messages.channel import peer_uid
from fanstore.outputs.model.entries import failure
from fanstore.outputs.model.wire import (
    HEAD_BYTES,
    REQUEST_MAX_BYTES,
    Answer,
    Request,
    parse,
    request_bytes,
    serialise,
    serialise_error,
)

T = TypeVar("T")
PATIENCE_S = 60.0  # how long to wait for a client that neither sends nor closes
ORPHAN_S = 10.0  # how long to wait for operations whose clients have ended
_PAUSE_S = 0.01
_BACKLOG = 4096


class Listener:
    """Answers clients' requests with the result of `run`, or the OSError that it raises. Serves
    `most` clients at once; the others wait. Runs in the loop's thread and never blocks it."""

    def __init__(
        self,
        listener: socket.socket,
        mount_count: int,
        run: Callable[[Request], Coroutine[Any, Any, Answer]],
        most: int,
    ) -> None:
        """listener: a bound socket."""
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._mount_count = mount_count
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._most = most
        self._live: dict[socket.socket, asyncio.Task[None]] = {}
        self._closed = False
        self._running: dict[int, asyncio.Task[None]] = {}  # client's descriptor: its task
        self._hang_ups = select.poll()
        self._later: asyncio.TimerHandle | None = None
        self._listens = False
        self._accept()

    def close(self) -> None:
        """Ends all connections and accepts no more. The caller closes the socket."""
        self._closed = True
        self._listen(False)
        for stream in self._live:
            _hang_up(stream)

    def _accept(self) -> None:
        """Accepts a client, and listens for more while there is room."""
        if self._closed:
            return
        if self._later is not None:  # otherwise each client that ends would leave another timer
            self._later.cancel()
        listens = True
        try:
            stream, _ = self._listener.accept()
            self._live[stream] = self._loop.create_task(self._serve(stream))
            listens = len(self._live) < self._most
        except BlockingIOError:
            pass
        except OSError:  # the client has ended, or no descriptor is free
            self._later = self._loop.call_later(_PAUSE_S, self._accept)
            listens = False
        self._listen(listens)

    def _listen(self, listens: bool) -> None:
        if listens and not self._listens:
            self._loop.add_reader(self._listener, self._accept)
        elif self._listens and not listens:
            self._loop.remove_reader(self._listener)
        self._listens = listens

    async def _serve(self, stream: socket.socket) -> None:
        """Receives one client's request and answers it. Stops if the client closes or stays
        silent."""
        with stream, contextlib.suppress(OSError):
            stream.setblocking(False)
            answer, fd = await self._answer(stream)
            if fd >= 0:
                with FileIO(fd):
                    answer = answer[socket.send_fds(stream, [answer], [fd]) :]
            answer = answer[stream.send(answer) :] if answer else b""
            if answer:
                await self._patiently(stream, self._loop.sock_sendall(stream, answer))
        del self._live[stream]
        if not self._listens:
            self._loop.call_soon(self._accept)

    async def _patiently(self, stream: socket.socket, work: Coroutine[Any, Any, T]) -> T:
        """Waits for a client to take or send something, but not for ever."""
        patience = self._loop.call_later(PATIENCE_S, _hang_up, stream)
        try:
            return await work
        finally:
            patience.cancel()

    async def _answer(self, stream: socket.socket) -> tuple[bytes, int]:
        """Returns the answer for a client, and a descriptor to send with it, or -1. Raises OSError
        if the client has ended."""
        if peer_uid(stream) != os.geteuid():
            return serialise_error(errno.EACCES), -1
        try:
            data = stream.recv(REQUEST_MAX_BYTES + 1)
        except BlockingIOError:
            data = b""
        if not _is_whole(data):
            data = await self._patiently(stream, self._receive(stream, data))
        try:
            answer = await self.run(stream, parse(data, self._mount_count))
            return serialise(answer), answer.fd
        except OSError as error:
            return serialise_error(error.errno or errno.EIO), -1
        except Exception as error:  # a bug must end one operation and not all of them
            traceback.print_exception(error)
            return serialise_error(errno.EIO), -1

    async def _receive(self, stream: socket.socket, data: bytes) -> bytes:
        """Returns the bytes of a request that begins with `data`; they may be invalid. Raises
        OSError if no complete request comes."""
        while not _is_whole(data):
            chunk = await self._loop.sock_recv(stream, REQUEST_MAX_BYTES + 1)
            if not chunk or self._closed:
                raise failure(errno.ECONNRESET)
            data += chunk
        return data

    async def run(self, stream: socket.socket, request: Request) -> Answer:
        """Runs a client's request. First waits for the requests of clients that were killed
        meanwhile: a program that has waited for such a client's end must see everything that the
        client did, and nothing may happen later."""
        orphans = [self._running[fd] for fd, _ in self._hang_ups.poll(0)]
        self._running[stream.fileno()] = self._live[stream]
        self._hang_ups.register(stream, 0)
        try:
            if orphans:
                await asyncio.wait(orphans, timeout=ORPHAN_S)
            return await self._run(request)
        finally:
            del self._running[stream.fileno()]
            self._hang_ups.unregister(stream)


def _is_whole(data: bytes) -> bool:
    """Returns whether a request is complete, or invalid."""
    with contextlib.suppress(OSError):
        return len(data) >= HEAD_BYTES and len(data) >= request_bytes(data)
    return True


def _hang_up(stream: socket.socket) -> None:
    """Shuts a connection down in both directions, unless it is closed."""
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)
