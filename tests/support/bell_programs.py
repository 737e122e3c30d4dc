"""What ranks do in the tests of bells, as programs of transport_peer.py: rings wake a rank that
sleeps, and strangers wake nobody."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cffi import FFI

if TYPE_CHECKING:
    from transport_peer import Peer

WAIT_S = 15
SETTLE_S = 0.05  # the other rank sleeps by then; if it does not, nothing fails
RINGS = 20
STRANGERS = 300
_FUTEX = 202 if os.uname().machine == "x86_64" else 98

ffi = FFI()
ffi.cdef("struct timespec { long s; long ns; }; long syscall(long number, ...);")
libc = ffi.dlopen(None)


class Bell:
    """The doorbell of a rank that listens."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.word = ffi.new("uint32_t *", 0)
        assert peer.listen(int(ffi.cast("uintptr_t", self.word))) == 0

    def sleep(self, seen: int) -> None:
        """Sleeps until the doorbell is no longer `seen`, as the node thread does."""
        limit = ffi.new("struct timespec *", {"s": WAIT_S})
        wait, expected = ffi.cast("int", 0), ffi.cast("unsigned", seen)
        libc.syscall(_FUTEX, self.word, wait, expected, limit, ffi.NULL, ffi.cast("int", 0))
        assert self.word[0] != seen, "nothing rang"


def rings(peer: Peer) -> None:
    """A rank that sleeps is woken by each message, and finds it."""
    bell = Bell(peer)
    peer.poll_until(peer.is_rung)
    peer.comm.Barrier()
    for number in range(RINGS):
        if peer.rank == 0:
            time.sleep(SETTLE_S if number % 2 else 0)
            peer.notify(1, number)
            peer.ring()
        else:
            bell.sleep(int(bell.word[0]) if number else 0)
        peer.poll_until(lambda: len(peer.notices) > number)  # noqa: B023
        if peer.rank == 1:
            peer.notify(0, number)
            peer.ring(sleeps=True)  # so that it is rung although it was active a moment ago


def strangers(peer: Peer) -> None:
    """Datagrams without the token wake nobody; those with it and a wrong rank teach nothing."""
    if peer.rank == 0:
        bell = Bell(peer)
        peer.poll_for(SETTLE_S)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.connect(("127.0.0.1", _own_port()))
            _ring_as_a_stranger(stranger, peer, bell)
        assert not peer.is_rung(), "a ring of no rank counts"
    peer.comm.Barrier()
    if peer.rank == 1:
        Bell(peer)
    peer.poll_until(peer.is_rung)
    peer.comm.Barrier()


def _ring_as_a_stranger(stranger: socket.socket, peer: Peer, bell: Bell) -> None:
    (token,) = struct.unpack_from("<Q", peer.opened.bell)
    before = bell.word[0]
    for number in range(STRANGERS):
        stranger.send(os.urandom(number % 64))
        stranger.send(struct.pack("<QII", token ^ 1 << number % 64, 1, 0))
    peer.poll_for(SETTLE_S)
    assert bell.word[0] == before, "a stranger woke the rank"
    stranger.send(struct.pack("<Q", token))
    for rank in (0, 2, 1 << 31, 0xFFFFFFFF):
        stranger.send(struct.pack("<QII", token, rank, 1))
    peer.poll_until(lambda: bell.word[0] != before)
    peer.poll_for(SETTLE_S)


def _own_port() -> int:
    """Returns the port of this rank's only UDP socket."""
    own = {os.readlink(f"/proc/self/fd/{name}") for name in _descriptors()}
    rows = [line.split() for line in Path("/proc/self/net/udp").read_text().splitlines()[1:]]
    (port,) = {int(row[1].split(":")[1], 16) for row in rows if f"socket:[{row[9]}]" in own}
    return port


def _descriptors() -> list[str]:
    return [name for name in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{name}")]


PROGRAMS: dict[str, Callable[[Peer], None]] = {"rings": rings, "strangers": strangers}
