"""The sockets of a daemon. Messages go over them as one JSON object per line."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from fanstore.messages.message import (
    Message,
    MessageError,
    NamedMessage,
    decode_one_of,
    from_line,
    to_line,
)

T = TypeVar("T", bound=NamedMessage)

MESSAGE_MAX_BYTES = 1 << 24
LIVE_SOCKET = "live"  # HTTP requests of programs that watch the job (fanstore.watch.answers)
_SOCKET = "sock"
_READ_BYTES = 1 << 16
_FDS_MAX = 2  # taken with its message, or the first part of one; a read gets one at most


class Channel:
    """A stream socket that carries messages."""

    def __init__(self, stream: socket.socket) -> None:
        self.socket = stream
        self._pending = bytearray()
        self._fds: list[int] = []

    def fileno(self) -> int:
        """Returns the file descriptor, so that selectors accept a Channel."""
        return self.socket.fileno()

    def send(self, message: Message, fd: int | None = None) -> None:
        """Sends the whole message, with a descriptor if one is given. Raises OSError."""
        line = to_line(message)
        # MSG_NOSIGNAL: the process that is about to become the command no longer ignores SIGPIPE.
        flags = socket.MSG_NOSIGNAL
        sent = 0 if fd is None else socket.send_fds(self.socket, [line], [fd], flags)
        self.socket.sendall(line[sent:], flags)

    def try_send(self, message: Message) -> None:
        """Sends a message to a peer that may have ended. Ignores OSError, and sends nothing more
        after one, because a part of the message may have been sent."""
        try:
            self.send(message)
        except OSError:
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)

    def read_lines(self) -> list[bytes] | None:
        """Waits for bytes and returns the lines that are complete with them; None if the peer has
        closed the connection."""
        return self._lines_of(self._received)

    def _received(self) -> bytes:
        return self.socket.recv(_READ_BYTES)

    def _received_with_fd(self) -> bytes:
        data, fds, _, _ = socket.recv_fds(self.socket, _READ_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        self._fds += fds
        if len(self._fds) > _FDS_MAX:
            raise MessageError("descriptors without their messages")
        return data

    def _lines_of(self, receive: Callable[[], bytes]) -> list[bytes] | None:
        try:
            data = receive()
        except ConnectionError:
            data = b""
        if not data or len(self._pending) > MESSAGE_MAX_BYTES:
            return None
        self._pending += data
        if b"\n" not in data:
            return []
        *lines, rest = bytes(self._pending).split(b"\n")
        self._pending = bytearray(rest)
        return lines

    def hear(self, kinds: Sequence[type[T]], with_fds: bool = False) -> list[T] | None:
        """Waits for bytes and returns the messages of `kinds` that are complete with them; skips
        other kinds. Returns None if the peer has closed the connection. with_fds: descriptors may
        come with messages; `take_fd` returns them. Raises MessageError or OSError."""
        lines = self._lines_of(self._received_with_fd) if with_fds else self.read_lines()
        if lines is None:
            return None
        heard = [decode_one_of(kinds, from_line(line)) for line in lines]
        return [message for message in heard if message is not None]

    def take_fd(self) -> int:
        """Returns the first descriptor that came and was not taken yet. Raises MessageError."""
        if not self._fds:
            raise MessageError("a message without its descriptor")
        return self._fds.pop(0)

    def receive_line(self) -> bytes | None:
        """Waits for one line and returns it; None if the peer has closed the connection. The peer
        must send one line at a time."""
        while True:
            lines = self.read_lines()
            if lines is None or lines:
                return lines[0] if lines else None

    def receive_line_with_fd(self) -> tuple[bytes | None, int | None]:
        """Like receive_line; also returns the file descriptor that was sent with the line, or
        None."""
        while True:
            lines = self._lines_of(self._received_with_fd)
            if lines is None or lines:
                fd = self._fds.pop() if self._fds else None
                return (lines[0] if lines else None), fd

    def close(self) -> None:
        """Closes the socket, and descriptors that came and were not taken."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []
        self.socket.close()


@contextlib.contextmanager
def _short_name(directory: str, name: str) -> Iterator[str]:
    """Yields a path to `directory`/`name` that fits a socket address, however long the directory's
    own path is."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{name}"
    finally:
        os.close(fd)


def bind(directory: str, name: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """Returns a socket bound to `directory`/`name` that only its owner may use."""
    listener = socket.socket(socket.AF_UNIX, kind)
    os.fchmod(listener.fileno(), 0o600)  # bind() makes a file of this mode, less the umask
    with _short_name(directory, name) as path:
        listener.bind(path)
    return listener


def listen(directory: str) -> socket.socket:
    """Returns a socket that listens at `sock` in the job directory `directory`."""
    listener = bind(directory, _SOCKET)
    listener.listen(16)
    return listener


def open_stream(directory: str, name: str, timeout_s: float) -> socket.socket:
    """Returns a connection to the socket `directory`/`name`. Raises OSError if nothing listens
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
    """Returns a channel to the daemon of the job in `directory`. Raises OSError if there is
    none."""
    return Channel(open_stream(directory, _SOCKET, timeout_s))


def _credentials(stream: socket.socket) -> tuple[int, int, int]:
    data = stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", data)
    return pid, uid, gid


def peer_pid(stream: socket.socket) -> int:
    """Returns the id of the process at the other end."""
    return _credentials(stream)[0]


def peer_uid(stream: socket.socket) -> int:
    """Returns the id of the user at the other end."""
    return _credentials(stream)[1]
