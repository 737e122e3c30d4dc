"""Signals as something to wait for, together with sockets."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterable
from dataclasses import dataclass

# What the wrapper passes on to its command; SIGCHLD is for itself.
FORWARDED = frozenset(
    {
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
        signal.SIGTSTP,
        signal.SIGCONT,
    }
)
ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})

_INFO_BYTES = 128
_SIGSET_BYTES = 128
_SI_KERNEL = 0x80


@dataclass(frozen=True)
class Received:
    """A signal that came in. from_kernel: the terminal sent it to the whole process group."""

    number: signal.Signals
    from_kernel: bool


class SignalQueue:
    """Blocks signals and queues them behind a descriptor that select can wait for."""

    def __init__(self, numbers: Iterable[signal.Signals]) -> None:
        chosen = set(numbers)
        self.original_mask = signal.pthread_sigmask(signal.SIG_BLOCK, chosen)
        bits = sum(1 << (number - 1) for number in chosen)
        mask = bits.to_bytes(8, "little") + bytes(_SIGSET_BYTES - 8)
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "signalfd")

    def fileno(self) -> int:
        """For selectors."""
        return int(self._fd)

    def read(self) -> list[Received]:
        """What has come in; empty when nothing has."""
        try:
            data = os.read(self._fd, _INFO_BYTES * 16)
        except BlockingIOError:
            return []
        found = []
        for at in range(0, len(data), _INFO_BYTES):
            number, _, code = struct.unpack_from("<Iii", data, at)
            found.append(Received(signal.Signals(number), code == _SI_KERNEL))
        return found
