"""Starts the map server (csrc/maps) of a job, which serves mappings of files that are not on this
node, when a program asks for the first."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import subprocess
import sys

from fanstore._native import maps_path
from fanstore.messages.channel import bind

SOCKET = "maps"  # in a job's directory
_DEVICE = "/dev/fuse"
_TRY_S = 10.0
_END_S = 5.0
_BACKLOG = 64


def may_serve() -> bool:
    """Returns whether the server was built, and this user may open FUSE's device. The mount may be
    refused nevertheless; then the server ends at its start, and programs map in another way."""
    return maps_path().exists() and os.access(_DEVICE, os.R_OK | os.W_OK)


def problem() -> str:
    """Tries to mount, and returns why no map server can run here, or ""."""
    if not maps_path().exists():
        return "fanstore-maps was not built"
    if not may_serve():
        return f"this user may not open {_DEVICE}" if os.path.exists(_DEVICE) else f"no {_DEVICE}"
    tried = subprocess.run(
        [maps_path()], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=_TRY_S, check=False,
    )  # fmt: skip
    return "" if tried.returncode == 0 else f"FUSE: {tried.stderr.strip()}"


class MapServer:
    """The map server of a job. Until a program asks for it, only its socket exists."""

    def __init__(self, directory: str, preload: str, wrapper: int) -> None:
        """directory: the job's. preload: the preload library's path. wrapper: the process without
        which nobody needs the server once this daemon has died; 0: there is none."""
        self._command = [os.fspath(maps_path()), str(wrapper)]
        self._environ = {**os.environ, "LD_PRELOAD": preload, "FANSTORE_JOB_DIR": directory}
        self._listener = bind(directory, SOCKET, socket.SOCK_SEQPACKET)
        self._listener.listen(_BACKLOG)
        self._process: subprocess.Popen[bytes] | None = None

    def register(self, selector: selectors.BaseSelector) -> None:
        """Makes the loop of `selector` start the server when a program asks."""

        def start() -> None:
            selector.unregister(self._listener)
            # Closed, or programs would wait for a server that has ended. Without a server, because
            # no process is free, they map in another way.
            with self._listener:
                try:
                    self._process = subprocess.Popen(
                        self._command, env=self._environ, stdin=self._listener.fileno(),
                        start_new_session=True,
                    )  # fmt: skip
                except OSError as error:
                    print(f"fanstore: no map server: {error}", file=sys.stderr, flush=True)

        selector.register(self._listener, selectors.EVENT_READ, start)

    def close(self) -> None:
        """Ends the server. A program that touches a mapping then gets SIGBUS."""
        self._listener.close()
        if self._process is not None:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # it may wait for a file system
                self._process.wait(_END_S)
