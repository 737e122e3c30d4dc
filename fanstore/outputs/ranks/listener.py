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
from typing import Any

from fanstore.messages.channel import peer_pid, peer_uid
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
        self._accept()

    def close(self) -> None:
        """Ends all connections and accepts no more. The caller closes the socket."""
        self._closed = True
        self._loop.remove_reader(self._listener)
        for stream in self._live:
            _hang_up(stream)

    def _accept(self) -> None:
        """Accepts clients while there is room."""
        if self._closed:
            return
        if self._later is not None:  # otherwise each client that ends would leave another timer
            self._later.cancel()
        self._loop.add_reader(self._listener, self._accept)
        try:
            while len(self._live) < self._most:
                stream, _ = self._listener.accept()
                self._live[stream] = self._loop.create_task(self._serve(stream))
        except BlockingIOError:
            return
        except OSError:  # the client has ended, or no descriptor is free
            self._later = self._loop.call_later(_PAUSE_S, self._accept)
        self._loop.remove_reader(self._listener)  # until there is room

    async def _serve(self, stream: socket.socket) -> None:
        """Receives one client's request and answers it. Stops if the client closes or stays
        silent."""
        with stream, contextlib.suppress(OSError):
            stream.setblocking(False)
            answer, fd = await self._answer(stream)
            if fd >= 0:
                with FileIO(fd):
                    answer = answer[socket.send_fds(stream, [answer], [fd]) :]
            patience = self._loop.call_later(PATIENCE_S, _hang_up, stream)
            await self._loop.sock_sendall(stream, answer)
            patience.cancel()
        del self._live[stream]
        self._loop.call_soon(self._accept)

    async def _answer(self, stream: socket.socket) -> tuple[bytes, int]:
        """Returns the answer for a client, and a descriptor to send with it, or -1. Raises OSError
        if the client has ended."""
        uid = peer_uid(stream)
        if uid != os.geteuid():
            return serialise_error(errno.EACCES), -1
        patience = self._loop.call_later(PATIENCE_S, _hang_up, stream)
        data = await self._receive(stream)
        patience.cancel()
        try:
            request = parse(data, self._mount_count, peer_pid(stream), uid)
            answer = await self.run(stream, request)
            return serialise(answer), answer.fd
        except OSError as error:
            return serialise_error(error.errno or errno.EIO), -1
        except Exception as error:  # a bug must end one operation and not all of them
            traceback.print_exception(error)
            return serialise_error(errno.EIO), -1

    async def _receive(self, stream: socket.socket) -> bytes:
        """Returns the bytes of a request, which may be invalid. Raises OSError if no complete
        request comes."""
        data = b""
        while True:
            chunk = await self._loop.sock_recv(stream, REQUEST_MAX_BYTES + 1)
            if not chunk or self._closed:
                raise failure(errno.ECONNRESET)
            data += chunk
            with contextlib.suppress(OSError):
                if len(data) < HEAD_BYTES or len(data) < request_bytes(data):
                    continue
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


def _hang_up(stream: socket.socket) -> None:
    """Shuts a connection down in both directions, unless it is closed."""
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)
