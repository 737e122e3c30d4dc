"""Messages between members and the node daemon: one JSON object a line, over a Unix socket."""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import Any

COORDINATE_SOCKET = "coordinate"
_MESSAGE_MAX_BYTES = 1 << 22


class Wire:
    """One connection. A request is answered before the next one is sent."""

    def __init__(self, stream: socket.socket) -> None:
        self.socket = stream
        self._pending = b""

    def fileno(self) -> int:
        """Returns the descriptor, for selectors."""
        return self.socket.fileno()

    def send(self, message: dict[str, Any], fd: int | None = None) -> None:
        """Sends a message, with a descriptor where one is given. Raises OSError."""
        data = json.dumps(message).encode() + b"\n"
        sent = 0 if fd is None else socket.send_fds(self.socket, [data], [fd])
        self.socket.sendall(data[sent:])

    def receive(self) -> tuple[dict[str, Any] | None, int | None]:
        """Waits for bytes; returns the message that they complete, None where the peer has ended,
        {} where more is to come, and a descriptor that came along."""
        data, fds, _, _ = socket.recv_fds(self.socket, 1 << 16, 1, socket.MSG_CMSG_CLOEXEC)
        fd = fds[0] if fds else None
        self._pending += data
        if not data or len(self._pending) > _MESSAGE_MAX_BYTES:
            return None, fd
        line, end, rest = self._pending.partition(b"\n")
        if not end:
            return {}, fd
        self._pending = rest
        message = json.loads(line)
        return (message if isinstance(message, dict) else None), fd

    def receive_whole(self) -> tuple[dict[str, Any] | None, int | None]:
        """Waits for a whole answer, of a peer that sends {"ok": ...} at the least."""
        message, fd = self.receive()
        while message == {}:
            message, late = self.receive()
            fd = late if fd is None else fd
        return message, fd

    def peer(self) -> tuple[int, int]:
        """Returns (pid, uid) of the process that connected."""
        data = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, uid, _ = struct.unpack("3i", data)
        return pid, uid

    def close(self) -> None:
        """Closes the socket."""
        self.socket.close()


def connect(directory: str, timeout_s: float) -> Wire:
    """Returns a connection to the daemon of the job in `directory`. Raises OSError."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(timeout_s)
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:  # a socket's address is short, however deep the directory lies
        stream.connect(f"/proc/self/fd/{folder}/{COORDINATE_SOCKET}")
    except OSError:
        stream.close()
        raise
    finally:
        os.close(folder)
    return Wire(stream)
