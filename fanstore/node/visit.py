"""One block cache for the jobs of a user that serve the same datasets on one node.

The first of them is the *host*; the others are its *guests*. A guest passes the connections of its
programs to the host's daemon, which gives them sessions as it does to its own, and tells the host
in which order its loaders will read. All else stays with each job: outputs, counters, predictions.

The host holds a lock on a file beside the staged datasets, which contains its job directory. If it
ends, or no longer answers, each guest hangs up for its programs, which then ask it for a new
session, and looks for the host again: the first one to do so becomes the host. So nobody depends on
another job for more than a few seconds."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from fanstore.errors import FanstoreError
from fanstore.messages.channel import Channel, connect
from fanstore.messages.message import Message, MessageError, NamedMessage, decode, from_line
from fanstore.messages.requests import (
    TOLD_BY_GUEST,
    BeginOrder,
    BeginVisit,
    DaemonRequest,
    Dismissed,
    EndOrder,
    PassOrder,
    Present,
    Visitor,
)
from fanstore.node.core import Node, empty_if_ended
from fanstore.node.server import LOOK_EVERY_S
from fanstore.node.sessions import Sessions
from fanstore.staging import locks
from fanstore.staging.base import StagingFolder
from fanstore.staging.memory import left_bytes
from fanstore.staging.staged import StagedDirectory
from fanstore.wording import counted

A = TypeVar("A", bound=Message)

_UNANSWERED_MAX = 4  # looks in which a host may leave a guest without an answer
_ANSWER_WAIT_S = 0.5
_SEND_WAIT_S = 0.2
_BASE_WAIT_S = 1.0
_ORDERS_MAX = 4096  # of one guest


@dataclass
class _Order:
    """An order of a loader, and how far it is (Node.begin_order). number: its number in this job's
    own node, or 0."""

    mount: int
    records: Any
    behind: int
    position: int = 0
    read: int = 0
    number: int = 0

    def ids(self) -> bytes:
        """Returns the records as numbers of 64 bits."""
        ids: bytes = self.records.astype("uint64").tobytes()
        return ids


@dataclass
class _Guest:
    """A guest of this job. orders: the numbers in this job's node of its orders, by the guest's."""

    cache_bytes: int
    orders: dict[int, int] = field(default_factory=dict)


class HostLock:
    """The lock of the host among the jobs whose `key` and first dataset are the same."""

    def __init__(self, base: StagingFolder, first: StagedDirectory, key: object, own: str) -> None:
        """own: this job's directory."""
        name = hashlib.blake2b(repr(key).encode(), digest_size=8).hexdigest()
        self._base = base
        self._path = first.file(f"host-{name}")
        self._own = own
        self._fd: int | None = None

    def take(self, passed_over: str, wait_s: float) -> str:
        """Returns the job directory of the host; "" if this job is the host from now on.
        passed_over: a host that does not answer, whose place this job takes. Raises BlockingIOError
        if another process has held the base for `wait_s` seconds, and other OSErrors."""
        until_s = time.monotonic() + wait_s

        def check() -> None:
            if time.monotonic() >= until_s:
                raise BlockingIOError(errno.EAGAIN, "the base is locked")

        with self._base.locked(check):
            fd = locks.take(self._path, exclusive=True)
            if fd is None:
                with open(self._path, encoding="utf-8") as stream:
                    host = stream.read()
                if host != passed_over:
                    return host
                os.unlink(self._path)
                fd = locks.take(self._path, exclusive=True)
            assert fd is not None
            os.truncate(fd, 0)
            os.write(fd, os.fsencode(self._own))
            self._fd = fd
        return ""

    def release(self) -> None:
        """Lets another job be the host."""
        if self._fd is None:
            return
        with contextlib.suppress(OSError):  # another job may have taken the place already
            if os.path.samestat(os.fstat(self._fd), os.stat(self._path)):
                os.unlink(self._path)
        os.close(self._fd)
        self._fd = None


def _socket_of(fd: int) -> socket.socket:
    """Takes over a descriptor that a guest has sent. Raises OSError if it is not of a socket."""
    try:
        return socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        raise


def _content_of(fd: int) -> bytes:
    """Returns the content of a memory file that a guest has sent. Raises OSError if it is another
    file, whose reading may take any time, and MessageError if it is larger than the memory that the
    guest has given to it."""
    try:
        fcntl.fcntl(fd, fcntl.F_GET_SEALS)  # only memory files have seals
        found = os.fstat(fd)
        if found.st_size > found.st_blocks * 512:
            raise MessageError("an order with holes")
        with open(fd, "rb", closefd=False) as stream:
            stream.seek(0)  # the guest has written it
            return stream.read(found.st_size)
    finally:
        os.close(fd)


class SharedCache:
    """The block cache that the programs and loaders of this job use: the host's, or the job's own.
    The main thread calls all methods but those of orders, which any thread may call."""

    def __init__(
        self, node: Node, cache_bytes: int, lock: HostLock | None, warn: Callable[[str], None]
    ) -> None:
        """cache_bytes: how much content the own cache holds. lock: None for a job that shares with
        no other. warn: prints a line at the job's end."""
        self._node = node
        self._bytes = cache_bytes
        self._host_lock = lock
        self._warn = warn
        self._guard = threading.RLock()
        self._orders: dict[int, _Order] = {}
        self._last = 0
        self._host: Channel | None = None
        self._unanswered = 0
        self._cache_fds: list[int] = []  # of the caches of all hosts that may still live
        self._clients: dict[int, socket.socket] = {}
        self._guests: dict[Channel, _Guest] = {}
        self._guest_count = 0
        self._seeks = False  # whether it still has to find its host, or become it
        self._look_s = 0.0
        self._grown_bytes = 0

    def open(self, selector: selectors.BaseSelector, sessions: Sessions) -> None:
        """Finds the host, or becomes it. selector: of the main thread."""
        self._selector, self._sessions = selector, sessions
        self._seek(_BASE_WAIT_S)

    def _seek(self, wait_s: float) -> None:
        """Becomes the host, or a guest of it. wait_s: how long to wait for other processes, which
        may be other guests on the same search; the next look tries again."""
        self._seeks, passed_over = False, ""
        try:
            while self._host_lock and (host := self._host_lock.take(passed_over, wait_s)):
                if self._visit(host):
                    return
                passed_over = host
        except (OSError, FanstoreError) as error:
            self._seeks = isinstance(error, BlockingIOError)

    def _visit(self, host: str) -> bool:
        """Becomes a guest of the job in the directory `host`. Returns whether its daemon agreed."""
        try:
            channel = connect(host, _ANSWER_WAIT_S)
        except OSError:
            return False
        try:
            channel.send(BeginVisit(cache_bytes=self._bytes))
            _, cache_fd = channel.receive_line_with_fd()
        except OSError:
            cache_fd = None
        if cache_fd is None:
            channel.close()
            return False
        self._cache_fds.append(cache_fd)
        channel.socket.settimeout(_SEND_WAIT_S)
        with self._guard:
            self._host, self._host_directory, self._unanswered = channel, host, 0
            self._selector.register(channel, selectors.EVENT_READ, self._hear_host)
            self._warn(f"programs read through the block cache of job {os.path.basename(host)}")
            for number, order in self._orders.items():
                with contextlib.suppress(OSError):
                    self._node.end_order(order.number)
                self._tell_order(number, order)
        return True

    def look(self) -> bool:
        """Asks the host whether it answers, and leaves it if it has not for some looks: it may be
        stopped, frozen, or wait for a disk. Returns whether this job uses its own cache, for good
        as far as is known. A look soon after the last one does nothing."""
        now_s = time.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_EVERY_S
            if self._host is not None:
                self._unanswered += 1
                if self._unanswered > _UNANSWERED_MAX:
                    self._lose()
                else:
                    self._tell(Present())
            elif self._seeks:
                self._seek(0)
            for fd in [fd for fd in self._cache_fds if empty_if_ended(fd)]:
                self._cache_fds.remove(fd)
                os.close(fd)
        return self._host is None and not self._seeks

    def _hear_host(self) -> None:
        """Notes that the host answers. Leaves it if it has ended, or cannot do what this job says:
        then this job shares with no other any more, or it would say that again."""
        heard = None
        with contextlib.suppress(OSError, FanstoreError):
            heard = None if self._host is None else self._host.hear((Present, Dismissed))
        for message in heard or ():
            if isinstance(message, Dismissed):
                self._warn(f"shares no block cache: {message.error}")
                self._host_lock = heard = None
        self._unanswered = 0
        if heard is None:
            self._lose()

    def _lose(self) -> None:
        """Uses the own cache, or that of a new host, instead of the host's."""
        if self._host is None:
            return
        with self._guard:
            self._selector.unregister(self._host)
            self._host.close()
            self._host = None
            for fd in list(self._clients):
                self._hang_up(fd)
            for order in self._orders.values():
                with contextlib.suppress(OSError):
                    self._begin_own(order)
        self._seek(_BASE_WAIT_S)

    def _hang_up(self, fd: int) -> None:
        """Closes a program's connection to the host, whichever of the two has ended."""
        client = self._clients.pop(fd, None)
        if client is None:
            return
        self._selector.unregister(client)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        client.close()

    def begin(self, channel: Channel) -> None:
        """Begins the session of a program that has asked for one: the host answers it, or this
        job."""
        with self._guard:
            if self._tell(Visitor(), channel.fileno()):
                client = channel.socket.dup()
                self._clients[client.fileno()] = client
                hang_up = partial(self._hang_up, client.fileno())
                self._selector.register(client, selectors.EVENT_READ, hang_up)
                return
        self._sessions.begin(channel)

    def _tell(self, message: NamedMessage, fd: int | None = None) -> bool:
        """Sends a message to the host, with a descriptor if one is given. Returns False if there is
        none, or it does not take the message; the main thread then leaves it."""
        if self._host is None:
            return False
        try:
            self._host.send(message, fd)
        except OSError:
            with contextlib.suppress(OSError):  # a part of the message may have been sent
                self._host.socket.shutdown(socket.SHUT_RDWR)
            return False
        return True

    def ask_host(self, request: DaemonRequest, answer: type[A]) -> A | None:
        """Returns the host's answer to a request about its cache; None if this job is no guest.
        Raises OSError or FanstoreError."""
        if self._host is None:
            return None
        with contextlib.closing(connect(self._host_directory, _ANSWER_WAIT_S)) as channel:
            channel.send(request)
            line = channel.receive_line()
        return decode(answer, from_line(line or b"{}"))

    def begin_order(self, mount: int, records: Any, behind: int = 0) -> int:
        """Does what Node.begin_order does, in the cache that is used."""
        with self._guard:
            order = _Order(mount, records, behind)
            if self._host is None:
                self._begin_own(order)
            self._last += 1
            self._orders[self._last] = order
            self._tell_order(self._last, order)
            return self._last

    def _begin_own(self, order: _Order) -> None:
        before = self._orders.get(order.behind)
        behind = 0 if before is None else before.number
        order.number = self._node.begin_order(order.mount, order.ids(), behind)
        if order.read:  # otherwise it would count as a reader that has begun, and waits
            self._node.pass_order(order.number, order.position, order.read)

    def _tell_order(self, number: int, order: _Order) -> None:
        if self._host is None:
            return
        fd = os.memfd_create("fanstore-order", os.MFD_CLOEXEC)
        with open(fd, "wb") as stream:
            stream.write(order.ids())
            stream.flush()
            self._tell(BeginOrder(order=number, mount=order.mount, behind=order.behind), fd)
        if order.read:
            self._tell(PassOrder(order=number, position=order.position, read=order.read))

    def pass_order(self, number: int, position: int, read: int) -> None:
        """Does what Node.pass_order does."""
        with self._guard:
            order = self._orders[number]
            order.position, order.read = position, read
            if self._host is None:
                self._node.pass_order(order.number, position, read)
            else:
                self._tell(PassOrder(order=number, position=position, read=read))

    def end_order(self, number: int) -> None:
        """Does what Node.end_order does."""
        with self._guard:
            order = self._orders.pop(number)
            if self._host is None:
                self._node.end_order(order.number)
            else:
                self._tell(EndOrder(order=number))

    def receive(self, channel: Channel, asked: BeginVisit) -> None:
        """Answers a job that asks to be a guest."""
        if self._host_lock is None or self._host is not None:
            return
        channel.send(BeginVisit(cache_bytes=self._bytes), self._node.cache_fd)
        self._guests[channel] = _Guest(asked.cache_bytes)
        self._guest_count += 1
        self._grow()
        self._selector.register(channel, selectors.EVENT_READ, lambda: self._hear(channel))

    def _grow(self) -> None:
        """Makes the cache as large as all caches together that it replaces. It stays so large when
        a guest leaves, for the next one."""
        wanted = sum(guest.cache_bytes for guest in self._guests.values()) - self._grown_bytes
        cache = self._node.stats()
        to_fill = cache.cache_bytes - cache.peak_resident_bytes
        more = min(wanted, (left_bytes() - to_fill) // 2)  # the other half is for programs
        if more > 0:
            self._node.grow(more)
            self._grown_bytes += more

    def owns(self, channel: Channel) -> bool:
        """Returns whether `channel` is a guest's."""
        return channel in self._guests

    def _hear(self, channel: Channel) -> None:
        """Does what a guest says. Whatever that is, this job goes on: a guest whose messages cannot
        be understood or fulfilled is one no longer."""
        if channel not in self._guests:
            return
        try:
            messages = channel.hear(TOLD_BY_GUEST, with_fds=True)
            for message in messages or ():
                self._do(channel, message)
        except Exception as error:  # also OverflowError and MemoryError, from numbers and files
            print(f"fanstore: a guest is dismissed: {error!r}", file=sys.stderr)
            channel.try_send(Dismissed(error=repr(error)))
            messages = None
        if messages is None:
            self._dismiss(channel)

    def _do(self, channel: Channel, message: NamedMessage) -> None:
        orders = self._guests[channel].orders
        if isinstance(message, Visitor):
            client = Channel(_socket_of(channel.take_fd()))
            client.socket.settimeout(_SEND_WAIT_S)
            self._sessions.begin(client)
            if not self._sessions.owns(client):
                client.close()
        elif isinstance(message, BeginOrder):
            records = _content_of(channel.take_fd())
            if message.order in orders or len(orders) == _ORDERS_MAX:
                raise MessageError("an order that has begun, or too many orders")
            behind = orders.get(message.behind, 0)
            orders[message.order] = self._node.begin_order(message.mount, records, behind)
        elif isinstance(message, PassOrder):
            self._node.pass_order(orders[message.order], message.position, message.read)
        elif isinstance(message, EndOrder):
            self._node.end_order(orders.pop(message.order))
        elif isinstance(message, Present):
            channel.send(message)

    def _dismiss(self, channel: Channel) -> None:
        self._selector.unregister(channel)
        for number in self._guests.pop(channel).orders.values():
            self._node.end_order(number)
        channel.close()

    def close(self) -> None:
        """Leaves the guests, which look for another host. Call it when the command has ended."""
        if self._guest_count:
            jobs = counted(self._guest_count, "job")
            self._warn(f"other jobs read through this job's block cache: {jobs}")
        if self._host_lock is not None:
            self._host_lock.release()
            self._host_lock = None
        for channel in list(self._guests):
            self._dismiss(channel)
