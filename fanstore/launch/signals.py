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
    """A signal that came in. reaches_command: whoever sent it sent it to the command, too."""

    number: signal.Signals
    reaches_command: bool


def _signals_all_of_a_step(sender: int) -> bool:
    """Slurm's step manager signals each process below it; the terminal its process group."""
    try:
        with open(f"/proc/{sender}/comm", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip() == "slurmstepd"
    except OSError:
        return False


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
            number, _, code, sender = struct.unpack_from("<IiiI", data, at)
            to_all = code == _SI_KERNEL or _signals_all_of_a_step(sender)
            found.append(Received(signal.Signals(number), to_all))
        return found
