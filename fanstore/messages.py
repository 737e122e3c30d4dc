"""Messages between wrapper, daemon and `fanstore status|stop`: one JSON object a line."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any

MESSAGE_MAX_BYTES = 1 << 24
LIVE_SOCKET = "live"  # HTTP, for whoever watches (fanstore.watch.answers)
_SOCKET = "sock"


class Channel:
    """A stream socket that carries messages."""

    def __init__(self, stream: socket.socket) -> None:
        self.socket = stream
        self._pending = b""

    def fileno(self) -> int:
        """Returns the descriptor, for selectors."""
        return self.socket.fileno()

    def send(self, message: dict[str, Any]) -> None:
        """Sends it all, or raises OSError."""
        # No signal: the process that becomes the command ignores SIGPIPE no more.
        self.socket.sendall(json.dumps(message).encode() + b"\n", socket.MSG_NOSIGNAL)

    def try_send(self, message: dict[str, Any]) -> None:
        """Sends to a peer that may be gone: errors are dropped."""
        with contextlib.suppress(OSError):
            self.send(message)

    def read(self) -> list[dict[str, Any]] | None:
        """Waits for bytes; returns the messages that they complete, or None at the peer's end."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data or len(self._pending) > MESSAGE_MAX_BYTES:
            return None
        *lines, self._pending = (self._pending + data).split(b"\n")
        return [_object(line) for line in lines]

    def receive(self) -> dict[str, Any] | None:
        """Waits for one message from a peer that sends them one by one; None at its end."""
        while True:
            messages = self.read()
            if messages is None or messages:
                return messages[0] if messages else None

    def close(self) -> None:
        """Closes the socket."""
        self.socket.close()


def _object(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


@contextlib.contextmanager
def _short_name(directory: str, name: str) -> Iterator[str]:
    """Yields a path to `directory`/`name` that fits a socket address however deep it lies."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def bind(directory: str, name: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """Returns a socket at `directory`/`name`, which its owner alone may use."""
    listener = socket.socket(socket.AF_UNIX, kind)
    os.fchmod(listener.fileno(), 0o600)  # what the name gets, less the umask
    with _short_name(directory, name) as path:
        listener.bind(path)
    return listener


def listen(directory: str) -> socket.socket:
    """Returns a socket that listens at `directory`/sock."""
    listener = bind(directory, _SOCKET)
    listener.listen(16)
    return listener


def open_stream(directory: str, name: str, timeout_s: float) -> socket.socket:
    """Returns a connection to the socket `directory`/`name`. Raises OSError where nobody listens
    there."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(timeout_s)
    try:
        with _short_name(directory, name) as path:
            stream.connect(path)
    except OSError:
        stream.close()
        raise
    return stream


def connect(directory: str, timeout_s: float = 10.0) -> Channel:
    """Returns a channel to the daemon of the job in `directory`. Raises OSError where there is
    none."""
    return Channel(open_stream(directory, _SOCKET, timeout_s))


def _credentials(stream: socket.socket) -> tuple[int, int, int]:
    data = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", data)
    return pid, uid, gid


def peer_pid(stream: socket.socket) -> int:
    """Returns the id of the process that connected."""
    return _credentials(stream)[0]


def peer_uid(stream: socket.socket) -> int:
    """Returns the id of the user at the other end."""
    return _credentials(stream)[1]


def has_looked(status: dict[str, Any]) -> bool:
    """Tells whether the command of a rank looked at anything in a mount, by that rank's status."""
    counters, outputs = status["counters"], status["outputs"]
    looked = ("opens", "directory_opens", "stats", "missing", "refused_writes", "errors")
    return any(counters[name] for name in looked) or bool(outputs.get("published"))
