"""Queues signals behind a descriptor, so that a selector can wait for them and for sockets
together."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from collections.abc import Iterable
from dataclasses import dataclass

# Signals that the wrapper passes on to its command; it handles SIGCHLD itself.
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
class ReceivedSignal:
    """A signal that was received. sender: the name of the sending process, "" for the kernel."""

    number: signal.Signals
    sender: str

    @property
    def reaches_command(self) -> bool:
        """Whether the command got the signal directly: the terminal signals the command's process
        group, and Slurm's step manager signals each process below it."""
        return self.sender in ("", "slurmstepd")

    @property
    def is_launchers_own(self) -> bool:
        """Whether MPICH's mpiexec sent the signal to report a lost rank. Such a signal is not meant
        for the command."""
        return self.number == signal.SIGUSR1 and self.sender.startswith("hydra_pmi_proxy")


def _process_name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as stream:
            return stream.read().strip()
    except OSError:
        return "unknown"


class SignalQueue:
    """Blocks signals, and queues them behind a descriptor."""

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
        """Returns the descriptor that is readable while signals wait, for selectors."""
        return int(self._fd)

    def read(self) -> list[ReceivedSignal]:
        """Returns the signals received since the last call; an empty list if there are none."""
        try:
            data = os.read(self._fd, _INFO_BYTES * 16)
        except BlockingIOError:
            return []
        found = []
        for at in range(0, len(data), _INFO_BYTES):
            number, _, code, sender = struct.unpack_from("<IiiI", data, at)
            name = "" if code == _SI_KERNEL else _process_name(sender)
            found.append(ReceivedSignal(signal.Signals(number), name))
        return found
