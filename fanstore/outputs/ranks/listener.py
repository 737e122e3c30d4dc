"""The socket that clients ask at: one connection, one request, one answer."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import socket
import struct
import traceback
from collections.abc import Callable, Coroutine
from io import FileIO
from typing import Any

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

PATIENCE_S = 60.0  # with a client that neither goes on nor goes away
ORPHAN_S = 10.0  # for what is done for clients that have gone
_PAUSE_S = 0.01
_BACKLOG = 4096
_CREDENTIALS = struct.Struct("3i")


class Listener:
    """Answers clients by what `run` returns for their requests, or the OSError that it raises;
    `most` clients at once, the others wait. In the loop's thread, which waits for none of them."""

    def __init__(
        self,
        listener: socket.socket,
        mount_count: int,
        run: Callable[[Request], Coroutine[Any, Any, Answer]],
        most: int,
    ) -> None:
        """listener: a socket that is bound."""
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._mount_count = mount_count
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._most = most
        self._live: dict[socket.socket, asyncio.Task[None]] = {}
        self._closed = False
        self._running: dict[int, asyncio.Task[None]] = {}  # by their clients' descriptors
        self._hang_ups = select.poll()
        self._later: asyncio.TimerHandle | None = None
        self._accept()

    def close(self) -> None:
        """Ends all connections and accepts no more. The socket stays the caller's."""
        self._closed = True
        self._loop.remove_reader(self._listener)
        for stream in self._live:
            _hang_up(stream)

    def _accept(self) -> None:
        """Lets clients in while there is room."""
        if self._closed:
            return
        if self._later is not None:  # else each client that ends would leave one more running
            self._later.cancel()
        self._loop.add_reader(self._listener, self._accept)
        try:
            while len(self._live) < self._most:
                stream, _ = self._listener.accept()
                self._live[stream] = self._loop.create_task(self._serve(stream))
        except BlockingIOError:
            return
        except OSError:  # it has gone again, or there are no descriptors left
            self._later = self._loop.call_later(_PAUSE_S, self._accept)
        self._loop.remove_reader(self._listener)  # until there is room

    async def _serve(self, stream: socket.socket) -> None:
        """Takes one client's request and answers it, unless the client goes or keeps silent."""
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
        """Returns what a client is to be told, and a descriptor that goes with it, or -1. Raises
        OSError when it has gone."""
        found = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(found)
        if uid != os.geteuid():
            return serialise_error(errno.EACCES), -1
        patience = self._loop.call_later(PATIENCE_S, _hang_up, stream)
        data = await self._receive(stream)
        patience.cancel()
        try:
            request = parse(data, self._mount_count, pid, uid)
            answer = await self.run(stream, request)
            return serialise(answer), answer.fd
        except OSError as error:
            return serialise_error(error.errno or errno.EIO), -1
        except Exception as error:  # a mistake of ours ends one operation, not all of them
            traceback.print_exception(error)
            return serialise_error(errno.EIO), -1

    async def _receive(self, stream: socket.socket) -> bytes:
        """Returns a request, which need not be one. Raises OSError when no whole one comes."""
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
        """Does what a client asks for. What was begun for one that was killed meanwhile comes
        first: whoever has waited for its end finds all that it did, and nothing comes later."""
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
    """Ends what a connection is used for, at both ends; does nothing to one that is closed."""
    with contextlib.suppress(OSError):
        stream.shutdown(socket.SHUT_RDWR)
