"""Programs that test_transport.py runs under mpiexec: ranks that drive the transport's functions.

    python transport_peer.py PROGRAM FOLDER

Each rank has a pack of random bytes that every other rank can compute. It writes to FOLDER/RANK
(mpiexec passes on little once a rank was killed): "ok" in the end, or a traceback.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import bell_programs
import mpi4py
import numpy as np
from cffi import FFI

mpi4py.rc.thread_level = "serialized"
mpi4py.rc.finalize = False
from fanstore.startup import _remove_shared_memory, outlive_neighbours  # noqa: E402

outlive_neighbours()
from mpi4py import MPI  # noqa: E402

from fanstore.transport import Transport, open_transport  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
PACK_BYTES = 4 * MIB
SIZES = (1, 2, 3, 4, 5, 8, 15, 16, 17, 18, 32, 48, 4 * KIB, 128 * KIB, MIB)
LIMIT_S = 20
QUIET_S = 0.5
DONE = 99

# csrc/node/machine/transport.h has pointers to functions: the package does not tell cffi of it.
CDEF = """
struct fan_fetch_request {
    uint32_t mount; uint32_t pack; uint64_t record; uint64_t offset; uint32_t bytes; uint32_t tag;
    uint32_t urgency;
};
struct fan_message {
    struct fan_message *next; uint64_t bytes; uint32_t rank; int32_t error; uint64_t head[4];
    uint8_t data[];
};
struct fan_transport_event {
    int kind; uint32_t rank; int error; uint32_t notice; uint64_t token;
    struct fan_fetch_request request; struct fan_message *message;
};
struct fan_transport {
    void *context; uint32_t rank; uint32_t world_size;
    int (*fetch)(void *, uint32_t, const struct fan_fetch_request *, void *, uint64_t);
    int (*cancel)(void *, uint64_t);
    int (*reply)(void *, uint32_t, const struct fan_fetch_request *, const void *, uint64_t);
    int (*refuse)(void *, uint32_t, const struct fan_fetch_request *, int);
    int (*notify)(void *, uint32_t, uint32_t);
    int (*send)(void *, struct fan_message *);
    int (*poll)(void *, struct fan_transport_event *, int);
    int (*listen)(void *, uint32_t *);
    void (*ring)(void *, bool);
    void (*ring_again)(void *, bool);
    bool (*is_rung)(const void *);
    unsigned (*pending)(void *);
    void (*close)(void *);
};
void *malloc(size_t);
void free(void *);
"""
FETCHED, CANCELLED, REQUEST, NOTICE, SENT, MESSAGE = range(6)
MESSAGE_MAX = 4 * MIB
IS_OPEN_MPI = "Open MPI" in MPI.Get_library_version()

ffi = FFI()
ffi.cdef(CDEF)
libc = ffi.dlopen(None)


def pack_of(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).integers(0, 256, PACK_BYTES, dtype=np.uint8)


class Peer:
    """One rank. What it is asked it answers by `answer`, unless a program puts another there."""

    def __init__(self) -> None:
        self.comm = MPI.COMM_WORLD
        self.opened: Transport = open_transport(self.comm)
        _remove_shared_memory()  # as a daemon does: those that are killed leave it for good
        self.ops = ffi.cast("struct fan_transport *", int_of(self.opened.pointer))
        self.rank, self.world_size = self.ops.rank, self.ops.world_size
        assert (self.rank, self.world_size) == (self.comm.rank, self.comm.size)
        self.pack = pack_of(self.rank)
        self.answer: Callable[[int, Any], None] = self.reply
        self.events: dict[int, tuple[int, int]] = {}
        self.notices: list[tuple[int, int]] = []
        self.messages: list[tuple[int, bytes]] = []
        self.failed: list[tuple[int, int]] = []  # ranks and errors of messages
        self.sent = 0
        self.batch = ffi.new("struct fan_transport_event[4]")
        self.next_token = 1

    def fetch(self, rank: int, offset: int, to: np.ndarray, **fields: int) -> int:
        """Asks for len(to) bytes; the token."""
        token, self.next_token = self.next_token, self.next_token + 1
        request = ffi.new("struct fan_fetch_request *")
        request.offset, request.bytes, request.record = offset, to.nbytes, token
        for name, value in fields.items():
            setattr(request, name, value)
        place = ffi.cast("void *", to.ctypes.data)
        check(self.ops.fetch(self.ops.context, rank, request, place, token))
        return token

    def cancel(self, token: int) -> int:
        return int(self.ops.cancel(self.ops.context, token))

    def notify(self, rank: int, notice: int) -> None:
        check(self.ops.notify(self.ops.context, rank, notice))

    def send(self, rank: int, data: bytes) -> None:
        """A message for a rank."""
        made = libc.malloc(ffi.sizeof("struct fan_message") + len(data))
        message = ffi.cast("struct fan_message *", made)
        message.rank, message.bytes = rank, len(data)
        ffi.memmove(message.data, data, len(data))
        rc = self.ops.send(self.ops.context, message)
        if rc < 0:
            libc.free(made)
        check(rc)

    def take(self, event: Any) -> None:
        """Notes a message, or that one is lost."""
        if event.error:
            assert event.message == ffi.NULL
            self.failed.append((event.rank, event.error))
            return
        data = bytes(ffi.buffer(event.message.data, event.message.bytes))
        assert event.message.rank == event.rank
        libc.free(event.message)
        self.messages.append((event.rank, data))

    def reply(self, rank: int, request: Any) -> None:
        start = ffi.cast("char *", self.pack.ctypes.data) + request.offset
        check(self.ops.reply(self.ops.context, rank, ffi.addressof(request), start, request.offset))

    def refuse(self, rank: int, request: Any) -> None:
        """With the errno that the request has for a pack."""
        check(self.ops.refuse(self.ops.context, rank, ffi.addressof(request), request.pack))

    def listen(self, doorbell: int) -> int:
        return int(self.ops.listen(self.ops.context, ffi.cast("uint32_t *", doorbell)))

    def ring(self, sleeps: bool = False) -> None:
        self.ops.ring(self.ops.context, sleeps)

    def is_rung(self) -> bool:
        self.poll()
        return bool(self.ops.is_rung(self.ops.context))

    def pending(self) -> int:
        return int(self.ops.pending(self.ops.context))

    def poll(self) -> None:
        """One poll, its events noted or answered."""
        count = check(self.ops.poll(self.ops.context, self.batch, len(self.batch)))
        for event in self.batch[0:count]:
            if event.kind == REQUEST:
                self.answer(event.rank, event.request)
            elif event.kind == NOTICE:
                self.notices.append((event.rank, event.notice))
            elif event.kind == MESSAGE:
                self.take(event)
            elif event.kind == SENT:
                self.sent += 1
            else:
                assert event.token not in self.events, f"two ends of token {event.token}"
                self.events[event.token] = (event.kind, event.error)

    def poll_until(self, reached: Callable[[], bool]) -> None:
        for _ in self.polling(LIMIT_S):
            if reached():
                return
        raise AssertionError("not reached")

    def polling(self, limit_s: float) -> Iterator[None]:
        """Polls until `limit_s` is over."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            self.poll()
            yield

    def poll_for(self, limit_s: float) -> None:
        for _ in self.polling(limit_s):
            time.sleep(0.0005)

    def wait_for(self, *tokens: int) -> None:
        """Until these have been fetched without an error."""
        self.poll_until(lambda: all(token in self.events for token in tokens))
        assert [self.events[token] for token in tokens] == [(FETCHED, 0)] * len(tokens)

    def tell_done(self, *ranks: int) -> None:
        for rank in ranks or [r for r in range(self.world_size) if r != self.rank]:
            self.notify(rank, DONE)

    def serve(self) -> None:
        """Answers until rank 0 is done."""
        self.poll_until(lambda: (0, DONE) in self.notices)

    def end(self) -> None:
        """Ends as a rank does that lost nobody."""
        self.poll_until(lambda: self.pending() == 0)
        self.opened.close()
        MPI.Finalize()
        print("ok", flush=True)


def int_of(pointer: Any) -> int:
    from fanstore._native import ffi as native_ffi

    return int(native_ffi.cast("uintptr_t", pointer))


def check(rc: int) -> int:
    if rc < 0:
        raise OSError(-rc, os.strerror(-rc))
    return rc


def leave() -> None:
    """Ends as a rank does that lost another: MPI cannot be finalised."""
    print("ok", flush=True)
    os._exit(0)


def sizes(peer: Peer) -> None:
    """Every size, from every rank and this one itself, at odd addresses too."""
    if peer.rank != 0:
        peer.serve()
        return
    packs = [pack_of(rank) for rank in range(peer.world_size)]
    for size in SIZES:
        for rank, pack in enumerate(packs):
            for shift in (0, 1):
                place = np.full(size + 64, 0x5A, np.uint8)
                to = place[32 + shift : 32 + shift + size]
                peer.wait_for(peer.fetch(rank, 777, to))
                assert bytes(to) == bytes(pack[777 : 777 + size]), (size, rank)
                around = np.delete(place, slice(32 + shift, 32 + shift + size))
                assert (around == 0x5A).all(), (size, rank)
    peer.tell_done()


def outstanding(peer: Peer) -> None:
    """64 fetches of each rank at every other, both ways at once, of mixed sizes."""
    places: dict[int, tuple[int, int, np.ndarray]] = {}
    others = [rank for rank in range(peer.world_size) if rank != peer.rank]
    for n in range(64 * len(others)):
        rank = others[n % len(others)]
        to = np.zeros(SIZES[n % len(SIZES)], np.uint8)
        places[peer.fetch(rank, n * 1000, to)] = (rank, n * 1000, to)
    assert peer.pending() >= 64 * len(others)
    peer.wait_for(*places)
    for rank, offset, to in places.values():
        assert bytes(to) == bytes(pack_of(rank)[offset : offset + to.nbytes])
    peer.tell_done()
    peer.poll_until(lambda: len(peer.notices) == len(others))


def refusals(peer: Peer) -> None:
    """An errno in place of the bytes, for every size, and beside fetches that are answered."""
    if peer.rank != 0:
        peer.answer = lambda rank, request: (peer.refuse if request.pack else peer.reply)(
            rank, request
        )
        peer.serve()
        return
    for size in SIZES:
        for error in (errno.EIO, errno.ENOENT, errno.ESTALE, 4095):
            refused, given = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
            token = peer.fetch(1, 5, refused, pack=error)
            peer.wait_for(peer.fetch(1, 5, given))
            peer.poll_until(partial(peer.events.__contains__, token))
            assert peer.events[token] == (FETCHED, -error), (size, error)
            assert bytes(given) == bytes(pack_of(1)[5 : 5 + size])
    peer.tell_done()


def notices(peer: Peer) -> None:
    """Numbers in the order they were sent; more than there are receives posted."""
    count = 500
    for n in range(count):
        for rank in range(peer.world_size):
            peer.notify(rank, n)
    peer.poll_until(lambda: len(peer.notices) == count * peer.world_size)
    for rank in range(peer.world_size):
        assert [n for source, n in peer.notices if source == rank] == list(range(count))


def mail_of(rank: int, to: int, n: int) -> bytes:
    """The n-th message of a rank to another: short ones, and some as long as they may be."""
    size = {47: MESSAGE_MAX, 25: MIB + 3}.get(n, n % 7 * 500 if n % 10 else 60 * KIB + n)
    start = rank * 31 + to * 7 + n
    return struct.pack("<I", n) + bytes(pack_of(rank)[start : start + size])[4:]


def mail(peer: Peer) -> None:
    """Messages of all sizes to all others at once, in order, beside fetches."""
    count = 60
    others = [rank for rank in range(peer.world_size) if rank != peer.rank]
    to = np.zeros(MIB, np.uint8)
    token = peer.fetch(others[0], 4, to)
    for n in range(count):
        for rank in others:
            peer.send(rank, mail_of(peer.rank, rank, n))
    peer.poll_until(lambda: len(peer.messages) == count * len(others))
    for rank in others:
        got = [data for source, data in peer.messages if source == rank]
        assert got == [mail_of(rank, peer.rank, n) for n in range(count)]
    peer.wait_for(token)
    assert not peer.failed
    peer.tell_done()
    peer.poll_until(lambda: len(peer.notices) == len(others))


def crooked_mail(peer: Peer) -> None:
    """What no transport sends is told as an error and counted; so is what follows it, which would
    leave a gap. Others are heard."""
    crooked = [b"", b"x", b"x" * 32, b"\0" * 40, b"x" * (MESSAGE_MAX + 33)]
    if peer.rank == 1:
        for message in crooked:
            transport_comm(peer).Send([message, MPI.BYTE], 0, 1)
        peer.send(0, b"after them")
        peer.serve()
    elif peer.rank == 2:
        peer.send(0, b"good")
        peer.send(0, b"better")
        peer.serve()
    else:
        peer.poll_until(lambda: len(peer.failed) == len(crooked) + 1 and len(peer.messages) == 2)
        assert peer.failed == [(1, -errno.EPROTO)] * len(peer.failed)
        assert peer.messages == [(2, b"good"), (2, b"better")]
        assert peer.opened.ill_formed == len(peer.failed)
        peer.tell_done()


def limits(peer: Peer) -> None:
    """What is refused on the spot, and a cancel of what is not there."""
    to = np.zeros(8, np.uint8)
    for wrong in (
        lambda: peer.fetch(peer.world_size, 0, to),
        lambda: peer.fetch(1, 0, to[:0]),
        lambda: peer.fetch(1, 0, to, bytes=1 << 31),
        lambda: peer.notify(peer.world_size, 1),
        lambda: peer.send(peer.world_size, b"x"),
        lambda: peer.send(1, bytes(MESSAGE_MAX + 1)),
        lambda: peer.reply(0, ffi.new("struct fan_fetch_request *", {"bytes": 8})[0]),
        lambda: peer.refuse(peer.world_size, ffi.new("struct fan_fetch_request *")[0]),
    ):
        try:
            wrong()
        except OSError as error:
            assert error.errno == errno.EINVAL, error
        else:
            raise AssertionError("accepted")
    assert peer.cancel(12345) == -errno.ENOENT
    assert peer.pending() == 0


def ill_formed(peer: Peer) -> None:
    """Messages that no transport sends are counted and dropped; the next good one is heard."""
    crooked = [b"", b"\0", b"\0" * 48, b"\xff" * 48, b"x" * 63, b"x" * 4096]
    good = well_formed_request()
    for at, value in ((0, 1), (4, 9), (6, 7), (8, 0), (11, 0x7F), (12, 0), (15, 0x80), (44, 1)):
        crooked.append(good[:at] + bytes([value]) + good[at + 1 :])
    if peer.rank == 1:
        for message in crooked:
            transport_comm(peer).Send([message, MPI.BYTE], 0, 0)
        peer.notify(0, 7)
        peer.serve()
    else:
        peer.answer = lambda rank, request: print("followed", request.bytes, request.tag)
        peer.poll_until(lambda: (1, 7) in peer.notices)
        assert peer.opened.ill_formed == len(crooked), peer.opened.ill_formed
        assert peer.notices == [(1, 7)]
        peer.tell_done()


def transport_comm(peer: Peer) -> Any:
    return peer.opened._comm


def well_formed_request() -> bytes:
    """magic, version, kind, tag, bytes, record, offset, mount, pack, notice, reserved."""
    return struct.pack("<IHHIIQQIIII", 0x46414E57, 1, 1, 5, 100, 0, 0, 0, 0, 0, 0)


def crooked_answers(peer: Peer) -> None:
    """An answer of another length than asked for, or a refusal that is none, is an error."""
    if peer.rank == 1:

        def answer(rank: int, request: Any) -> None:
            transport_comm(peer).Send([b"z" * request.pack, MPI.BYTE], rank, request.tag)

        peer.answer = answer
        peer.serve()
        return
    small = [(8, 7), (8, 9), (8, 17), (8, 0), (100, 99), (100, 101), (100, 16), (100, 17)]
    # Open MPI writes a long message that does not fit past the end of where it belongs.
    large = [(MIB, MIB - 1)] if IS_OPEN_MPI else [(MIB, MIB - 1), (MIB, MIB + 1)]
    for size, answered in small + large:
        place = np.full(size + 64, 0x5A, np.uint8)
        token = peer.fetch(1, 0, place[:size], pack=answered)
        peer.poll_until(partial(peer.events.__contains__, token))
        assert peer.events[token] == (FETCHED, -errno.EPROTO), (size, answered)
        assert (place[size:] == 0x5A).all()
    peer.tell_done()


def give_up(peer: Peer, tokens: list[int]) -> list[int]:
    """Cancels those that have not ended; those that are still under way after a while."""
    for token in tokens:
        if token not in peer.events:
            assert peer.cancel(token) == 0
            assert peer.cancel(token) == 0
    for _ in peer.polling(QUIET_S):
        if all(token in peer.events for token in tokens):
            break
    return [token for token in tokens if token not in peer.events]


def fetch_beside(peer: Peer) -> None:
    """Rank 2 answers whatever has become of rank 1."""
    for size in (8, 4 * KIB, MIB):
        to = np.zeros(size, np.uint8)
        peer.wait_for(peer.fetch(2, 99, to))
        assert bytes(to) == bytes(pack_of(2)[99 : 99 + size])


def killed(peer: Peer, in_reply: bool) -> None:
    """Rank 1 is killed while fetches are outstanding there; rank 0 goes on with rank 2."""
    pids = peer.comm.allgather(os.getpid())
    if peer.rank == 1:
        asked = []

        def answer(rank: int, request: Any) -> None:
            asked.append(request.offset)
            if in_reply or len(asked) <= 4:
                peer.reply(rank, request)
            if len(asked) >= 16:
                os.kill(os.getpid(), signal.SIGKILL)

        peer.answer = answer
        peer.serve()
    elif peer.rank == 0:
        places = {}
        for n in range(24):
            to = np.zeros((8, 4 * KIB, MIB)[n % 3], np.uint8)
            places[peer.fetch(1, n * 100, to)] = (n * 100, to)
        peer.poll_until(lambda: state_of(pids[1]) in ("", "Z"))
        peer.poll_for(QUIET_S)
        left = give_up(peer, list(places))
        for token, (offset, to) in places.items():
            if peer.events.get(token) == (FETCHED, 0):
                assert bytes(to) == bytes(pack_of(1)[offset : offset + to.nbytes])
        kinds = [peer.events.get(token, ("pending", 0)) for token in places]
        print("killed:", {str(kind): kinds.count(kind) for kind in kinds}, flush=True)
        assert kinds.count((CANCELLED, 0)) + len(left) >= 1 or any(e < 0 for _, e in kinds)
        fetch_beside(peer)
        late = np.zeros(MIB, np.uint8)
        give_up(peer, [peer.fetch(1, 0, late)])  # asked of the dead: hinders nobody
        fetch_beside(peer)
        peer.tell_done(2)
        peer.poll_for(0.2)
    else:
        peer.serve()
    peer.opened.close()
    leave()


def killed_sending(peer: Peer) -> None:
    """Rank 1 is killed while messages of it are under way: what comes is whole and in order."""
    pids = peer.comm.allgather(os.getpid())
    if peer.rank == 1:
        for n in range(64):
            peer.send(0, struct.pack("<I", n) + bytes(pack_of(1)[n : n + 2 * MIB]))
            if n % 4 == 0:
                peer.poll()
            if (0, 5) in peer.notices:
                break
        os.kill(os.getpid(), signal.SIGKILL)
    elif peer.rank == 0:
        peer.poll_until(lambda: len(peer.messages) >= 2)
        peer.notify(1, 5)
        peer.poll_until(lambda: state_of(pids[1]) in ("", "Z"))
        peer.poll_for(QUIET_S)
        for n, (rank, data) in enumerate(peer.messages):
            assert (rank, data) == (1, struct.pack("<I", n) + bytes(pack_of(1)[n : n + 2 * MIB])), n
        print("killed-sending:", len(peer.messages), "came,", peer.failed, flush=True)
        with contextlib.suppress(OSError):  # to the dead: hinders nobody
            peer.send(1, bytes(MIB))
        peer.send(2, b"still here")
        fetch_beside(peer)
        peer.tell_done(2)
        peer.poll_for(0.2)
    else:
        peer.serve()
        assert peer.messages == [(0, b"still here")]
    peer.opened.close()
    leave()


def stopped(peer: Peer, in_reply: bool) -> None:
    """Rank 1 is stopped while fetches are outstanding there, and goes on after they were given up:
    what was given back is not written to, and nothing is left over."""
    pids = peer.comm.allgather(os.getpid())
    if peer.rank == 1:
        asked = []

        def answer(rank: int, request: Any) -> None:
            asked.append(request.offset)
            if in_reply:
                peer.reply(rank, request)
            if len(asked) == 12:
                os.kill(os.getpid(), signal.SIGSTOP)
            if not in_reply:
                peer.reply(rank, request)

        peer.answer = answer
        peer.serve()
    elif peer.rank == 0:
        stopped_requester(peer, pids[1])
    else:
        peer.serve()


def stopped_requester(peer: Peer, pid: int) -> None:
    places = {}
    for n in range(12):
        to = np.full((8, 4 * KIB, MIB)[n % 3], 0x11, np.uint8)
        places[peer.fetch(1, n * 100, to)] = (n * 100, to)
    peer.poll_until(lambda: state_of(pid) == "T")
    peer.poll_for(0.3)
    left = give_up(peer, list(places))
    given_back = [token for token in places if peer.events.get(token) == (CANCELLED, 0)]
    for token in given_back:
        places[token][1][:] = 0xA5
    fetch_beside(peer)
    os.kill(pid, signal.SIGCONT)
    peer.poll_until(lambda: peer.pending() == 0)
    print(f"stopped: {len(given_back)} given back, {len(left)} came later", flush=True)
    for token, (offset, to) in places.items():
        if token in given_back:
            assert (to == 0xA5).all(), "written to after it was given back"
        else:
            assert peer.events[token] == (FETCHED, 0)
            assert bytes(to) == bytes(pack_of(1)[offset : offset + to.nbytes])
    fresh = np.zeros(MIB, np.uint8)
    peer.wait_for(peer.fetch(1, 3, fresh))
    assert bytes(fresh) == bytes(pack_of(1)[3 : 3 + MIB])
    peer.tell_done()


def state_of(pid: int) -> str:
    """The letter of /proc/PID/stat; empty when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def build(peer: Peer) -> None:
    """Nothing but opening."""


PROGRAMS: dict[str, Callable[[Peer], None]] = {
    "sizes": sizes,
    "outstanding": outstanding,
    "refusals": refusals,
    "notices": notices,
    "mail": mail,
    "crooked-mail": crooked_mail,
    "limits": limits,
    "ill-formed": ill_formed,
    "crooked-answers": crooked_answers,
    "killed-between": lambda peer: killed(peer, False),
    "killed-in-reply": lambda peer: killed(peer, True),
    "killed-sending": killed_sending,
    "stopped-between": lambda peer: stopped(peer, False),
    "stopped-in-reply": lambda peer: stopped(peer, True),
    "build": build,
    **bell_programs.PROGRAMS,
}


def main() -> None:
    signal.alarm(45)
    output = os.open(f"{sys.argv[2]}/{MPI.COMM_WORLD.rank}", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    peer = Peer()
    PROGRAMS[sys.argv[1]](peer)
    peer.end()


if __name__ == "__main__":
    main()
