"""A file system that hangs: an empty directory in which nothing can be made, as nobody answers."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

_LOOKUP, _FORGET, _GETATTR, _STATFS, _INIT, _ACCESS, _INTERRUPT, _BATCH_FORGET = (
    1, 2, 3, 17, 26, 34, 36, 42
)  # fmt: skip
_MNT_FORCE, _MNT_DETACH = 1, 2
_REQUEST_BYTES = 1 << 17
_libc = ctypes.CDLL(None, use_errno=True)


def _root() -> bytes:
    """struct fuse_attr_out of the directory."""
    attr = struct.pack("<6Q10I", 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40777, 2, 0, 0, 0, 4096, 0)
    return struct.pack("<QII", 1, 0, 0) + attr


class _Server:
    """Answers what only looks; whoever wants more waits. asked: set once somebody does."""

    def __init__(self) -> None:
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self.asked = threading.Event()
        self._answers: dict[int, tuple[int, bytes]] = {
            _INIT: (0, struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 8, 8, 4096, 1, 0, 0, *[0] * 8)),
            _LOOKUP: (errno.ENOENT, b""),
            _GETATTR: (0, _root()),
            _STATFS: (0, bytes(80)),
            _ACCESS: (errno.ENOSYS, b""),
        }

    def serve(self) -> None:
        with contextlib.suppress(OSError):  # unmounted
            while True:
                request = os.read(self.fd, _REQUEST_BYTES)
                _, operation, unique = struct.unpack_from("<IIQ", request)
                if operation in self._answers:
                    error, text = self._answers[operation]
                    os.write(self.fd, struct.pack("<IiQ", 16 + len(text), -error, unique) + text)
                elif operation not in (_FORGET, _INTERRUPT, _BATCH_FORGET):
                    self.asked.set()


@contextlib.contextmanager
def hanging_disk(directory: Path) -> Iterator[threading.Event]:
    """Such a file system at `directory`; the event is set once somebody waits for it."""
    try:
        server = _Server()
    except OSError as error:
        pytest.skip(f"/dev/fuse: {error.strerror}")
    options = f"fd={server.fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    where = os.fsencode(directory)
    if _libc.mount(b"hanging", where, b"fuse", 0, options) != 0:
        os.close(server.fd)
        pytest.skip("mounting takes root, and a machine that lets it")
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server.asked
    finally:
        assert _libc.umount2(where, _MNT_FORCE | _MNT_DETACH) == 0  # whoever waits gets an error
        thread.join(10.0)
        os.close(server.fd)
