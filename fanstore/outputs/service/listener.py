"""The socket that clients ask at: one connection, one request, one answer.

Requests come by the thousand a second, so a connection that has sent all by the time it is
accepted, as nearly all have, costs no round of the loop before its operation begins.
"""

from __future__ import annotations

import asyncio
import errno
import os
import select
import socket
import struct
import traceback
from collections.abc import Callable

from fanstore.outputs.model.entries import failure
from fanstore.outputs.model.segment import NameSegment
from fanstore.outputs.model.wire import (
    ANNOUNCED,
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
_ACCEPT_BATCH = 64
_PAUSE_S = 0.01
_BACKLOG = 4096
_CREDENTIALS = struct.Struct("3i")


def listen(directory: str, name: str) -> socket.socket:
    """Makes a socket at `directory`/`name`, however long that path is, and listens at it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{fd}/{name}")
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(fd)
    return listener


class Listener:
    """Answers clients by what the tasks that `start` begins return, or the OSError that they raise;
    `most` clients at once, the others wait. In the loop's thread."""

    def __init__(
        self,
        listener: socket.socket,
        mount_count: int,
        start: Callable[[Request], asyncio.Task[Answer]],
        most: int,
        segment: NameSegment | None = None,
        on_request: Callable[[], None] = lambda: None,
    ) -> None:
        """on_request: called before each is begun."""
        self.mount_count = mount_count
        self.start = start
        self.loop = asyncio.get_running_loop()
        self.segment = segment or NameSegment()
        self._on_request = on_request
        self._listener = listener
        self._most = most
        self._live: set[_Connection] = set()
        self._waiting: asyncio.TimerHandle | None = None
        self._full = False
        self._closed = False
        self._running: dict[int, asyncio.Task[Answer]] = {}
        self._hang_ups = select.poll()
        self.loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Ends all connections and accepts no more. The socket stays the caller's."""
        self._closed = True
        self.loop.remove_reader(self._listener)
        if self._waiting is not None:
            self._waiting.cancel()
        self._full = False
        for connection in list(self._live):
            connection.close()

    def run(self, stream: socket.socket, request: Request) -> asyncio.Task[Answer]:
        """Begins what a client asks for. What was begun for one that was killed meanwhile comes
        first: whoever has waited for its end finds all that it did, and nothing comes later."""
        self._on_request()
        orphans = [self._running[fd] for fd, _ in self._hang_ups.poll(0)] if self._running else []
        if orphans:
            task = self.loop.create_task(self._run_after(orphans, request))
        else:
            task = self.start(request)
        self._running[stream.fileno()] = task
        self._hang_ups.register(stream, 0)
        return task

    async def _run_after(self, orphans: list[asyncio.Task[Answer]], request: Request) -> Answer:
        await asyncio.wait(orphans, timeout=ORPHAN_S)
        return await self.start(request)

    def ran(self, stream: socket.socket) -> None:
        """Notes that the task for a connection has ended, or that nobody waits for it."""
        if self._running.pop(stream.fileno(), None) is not None:
            self._hang_ups.unregister(stream)

    def leave(self, connection: _Connection) -> None:
        """Forgets a connection that has ended, and lets another in if all places were taken."""
        self._live.discard(connection)
        if not (self._live or self._closed) and self.segment.is_changing():
            self.loop.call_soon(self._accept)
        if self._full:
            self._full = False
            self._resume()

    def _accept(self) -> None:
        if self._closed:
            return
        announced = self.segment.announced()
        for _ in range(_ACCEPT_BATCH):
            if len(self._live) >= self._most:
                self._full = True
                self.loop.remove_reader(self._listener)
                return
            try:
                stream, _ = self._listener.accept()
            except BlockingIOError:
                if not self._live:  # whoever announced one until then had connected, and is gone
                    self.segment.settle(announced)
                return
            except OSError:  # it has gone again, or there are no descriptors left
                self.loop.remove_reader(self._listener)
                self._waiting = self.loop.call_later(_PAUSE_S, self._resume)
                return
            connection = _Connection(self, stream)
            self._live.add(connection)
            connection.begin()

    def _resume(self) -> None:
        self._waiting = None
        self.loop.add_reader(self._listener, self._accept)


class _Connection:
    """One client's request. The socket is never waited for but by the loop."""

    def __init__(self, owner: Listener, stream: socket.socket) -> None:
        self._owner = owner
        self._stream = stream
        self._data = b""
        self._out = memoryview(b"")
        self._timer: asyncio.TimerHandle | None = None
        self._announced = False
        self._pid = 0
        self._uid = -1

    def begin(self) -> None:
        """Reads what has come so far."""
        try:
            found = self._stream.getsockopt(
                socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
            )
            self._pid, self._uid, _ = _CREDENTIALS.unpack(found)
        except OSError:
            self.close()
            return
        if self._uid != os.geteuid():
            self._send(serialise_error(errno.EACCES))
            return
        self._read()

    def close(self) -> None:
        """Ends the connection, whatever was said on it."""
        self._wait_for_nothing()
        self._owner.ran(self._stream)
        self._stream.close()
        self._owner.leave(self)

    def _read(self) -> None:
        try:
            chunk = self._stream.recv(REQUEST_MAX_BYTES + 1, socket.MSG_DONTWAIT)
        except BlockingIOError:
            self._wait(self._owner.loop.add_reader, self._read)
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return
        self._data += chunk
        try:
            if self._is_complete():
                self._wait_for_nothing()
                request = parse(self._data, self._owner.mount_count, self._pid, self._uid)
                self._announced = bool(request.how & ANNOUNCED)
                self._owner.run(self._stream, request).add_done_callback(self._answer)
            else:
                self._wait(self._owner.loop.add_reader, self._read)
        except OSError as error:
            self._send(serialise_error(error.errno or errno.EIO))

    def _is_complete(self) -> bool:
        """Tells whether the whole request is there. Raises OSError when it cannot become one."""
        if len(self._data) < HEAD_BYTES:
            return False
        missing = request_bytes(self._data) - len(self._data)
        if missing < 0:
            raise failure(errno.EINVAL)
        return missing == 0

    def _answer(self, task: asyncio.Task[Answer]) -> None:
        self._owner.ran(self._stream)
        if self._announced:
            self._owner.segment.done()
        if task.cancelled():  # the service ends
            self.close()
            return
        error = task.exception()
        if error is None:
            self._send(serialise(task.result()))
            return
        if not isinstance(error, OSError):  # a mistake of ours ends one operation, not all of them
            traceback.print_exception(error)
        self._send(serialise_error(getattr(error, "errno", None) or errno.EIO))

    def _send(self, data: bytes) -> None:
        self._wait_for_nothing()
        self._out = memoryview(data)
        self._write()

    def _write(self) -> None:
        try:
            sent = self._stream.send(self._out, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError:  # the client is gone
            self.close()
            return
        self._out = self._out[sent:]
        if self._out:
            self._wait(self._owner.loop.add_writer, self._write)
        else:
            self.close()

    def _wait(self, add: Callable[..., object], then: Callable[[], None]) -> None:
        if self._timer is None:
            add(self._stream, then)
            self._timer = self._owner.loop.call_later(PATIENCE_S, self.close)

    def _wait_for_nothing(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._owner.loop.remove_reader(self._stream)
            self._owner.loop.remove_writer(self._stream)
