"""A small HTTP server for the watchers of a job, with one request for each connection.

It runs in threads of its own beside a daemon's event loop. After a while it ends a connection that
sends nothing, or does not read its answer; earlier if there are many connections."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping

CONNECTIONS_MOST = 16
OVERDUE_S = 5.0
_THREADS_MOST = 32  # several, because some may hang in a disk access
_BACKLOG = 64
_LOOK_EVERY_S = 0.5

# A function that gets the parameters and the Accept header of a request, and returns content type
# and body.
Route = Callable[[Mapping[str, str], str], tuple[str, bytes]]


class HttpServer:
    """Answers GET of some paths at sockets that are already bound, and closes the sockets."""

    def __init__(
        self,
        routes: Mapping[socket.socket, Mapping[str, Route]],
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        """routes: for each socket, the functions that answer, by path. prepare: called first in the
        server's thread."""
        self._routes = routes
        self._prepare = prepare
        self._lock = threading.Lock()
        self._since_s: dict[socket.socket, float] = {}
        self._busy = 0
        self._closing = False
        self._wakeup, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="fanstore-watch", daemon=True)

    def start(self) -> None:
        """Starts to listen and answer."""
        for listener in self._routes:
            listener.listen(_BACKLOG)
            listener.setblocking(False)
        self._thread.start()

    def close(self) -> None:
        """Ends all connections and closes the sockets. Unfinished requests get no answer. May be
        called without a start, and twice."""
        self._closing = True
        self._waker.close()
        if self._thread.ident is None:
            self._close_sockets()
        else:
            self._thread.join(OVERDUE_S)
        self._end(before_s=time.monotonic())

    def _close_sockets(self) -> None:
        for each in (*self._routes, self._wakeup):
            each.close()

    def _run(self) -> None:
        self._prepare()
        with selectors.DefaultSelector() as selector:
            selector.register(self._wakeup, selectors.EVENT_READ)
            for listener in self._routes:
                selector.register(listener, selectors.EVENT_READ)
            while not self._closing:
                for key, _ in selector.select(_LOOK_EVERY_S if self._since_s else None):
                    if isinstance(key.fileobj, socket.socket) and key.fileobj in self._routes:
                        self._accept(key.fileobj)
                self._end(before_s=time.monotonic() - OVERDUE_S)
        self._close_sockets()

    def _accept(self, listener: socket.socket) -> None:
        try:
            stream, _ = listener.accept()
        except OSError:  # the client has ended, or no descriptor is free
            time.sleep(0.01)
            return
        stream.settimeout(OVERDUE_S)
        with self._lock:
            oldest_s = min(self._since_s.values(), default=0.0)
            crowded = len(self._since_s) >= CONNECTIONS_MOST
            full = self._busy >= _THREADS_MOST
        if full:
            stream.close()
            return
        if crowded:
            self._end(before_s=oldest_s)
        with self._lock:
            self._busy += 1
            self._since_s[stream] = time.monotonic()
        answer = threading.Thread(target=self._answer, args=(stream, listener), daemon=True)
        answer.start()

    def _answer(self, stream: socket.socket, listener: socket.socket) -> None:
        from fanstore.watch.http_handler import answer

        try:
            with contextlib.suppress(OSError):
                answer(stream, self._routes[listener])
        finally:
            with self._lock:
                self._busy -= 1
                self._since_s.pop(stream, None)
            stream.close()

    def _end(self, before_s: float) -> None:
        """Ends the connections that began at `before_s` or earlier, whatever their threads are
        doing."""
        with self._lock:
            for stream in [each for each, s in self._since_s.items() if s <= before_s]:
                del self._since_s[stream]
                with contextlib.suppress(OSError):
                    stream.shutdown(socket.SHUT_RDWR)
