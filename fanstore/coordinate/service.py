"""The node daemon's side of coordinations: one thread handles all coordinations of the job."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from fanstore.coordinate.group import Group
from fanstore.coordinate.messages import (
    REQUESTS,
    Abandon,
    AskWork,
    Attach,
    Batch,
    Begin,
    Begun,
    CoordinationRefused,
    CoordinationRequest,
    Failed,
    Filled,
    Granted,
    Heard,
    Join,
    Joined,
    Next,
    Refused,
    Used,
)
from fanstore.messages.channel import Channel, peer_pid, peer_uid
from fanstore.messages.message import Message, MessageError, decode_one_of, from_line

_LOOK_EVERY_S = 0.1
_SEND_S = 5.0


@dataclass
class Peer:
    """A connection to a member or to one of its workers. asked: the request that it waits on."""

    number: int
    channel: Channel
    pid: int
    group: Group | None = None
    member: int = 0
    is_worker: bool = False
    asked: Begin | Next | AskWork | None = None
    since_s: float = 0.0
    pidfd: int = -1
    told: int = -1  # the last epoch in which Refused(error="failed") was sent to it


class Service:
    """Answers requests at a bound socket until `close`."""

    def __init__(self, listener: socket.socket, left_bytes: Callable[[], int]) -> None:
        self._listener = listener
        self._left_bytes = left_bytes
        self._groups: dict[str, Group] = {}
        self._peers: dict[int, Peer] = {}
        self._count = 0
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="fanstore-coordinate", daemon=True)

    def start(self) -> None:
        """Starts the thread that answers."""
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wakeup, selectors.EVENT_READ, None)
        self._thread.start()

    def close(self) -> None:
        """Ends all coordinations: the members see their connections close."""
        self._waker.send(b"\0")
        self._thread.join(_SEND_S)

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except Exception:
            print(f"fanstore: coordination: {traceback.format_exc()}", file=sys.stderr, flush=True)
        finally:
            for peer in list(self._peers.values()):
                peer.channel.close()
            for group in self._groups.values():
                group.close()
            self._listener.close()

    def _turn(self) -> bool:
        for key, _ in self._selector.select(_LOOK_EVERY_S if self._groups else None):
            if key.data is None:
                return False
            key.data()
        for group in list(self._groups.values()):
            for member in group.staging.expire(time.monotonic()):
                line = f"process {group.pids.get(member)} is late with a batch; others prepare it"
                print(f"fanstore: coordination {group.name!r}: {line}", file=sys.stderr, flush=True)
        while any([self._try_answer(peer) for peer in list(self._peers.values()) if peer.asked]):
            pass
        return True

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            stream, _ = self._listener.accept()
            stream.settimeout(_SEND_S)
            channel = Channel(stream)
            if peer_uid(stream) != os.getuid():
                channel.close()
                return
            self._count += 1
            peer = self._peers[self._count] = Peer(self._count, channel, peer_pid(stream))
            self._selector.register(channel, selectors.EVENT_READ, lambda: self._hear(peer))

    def _hear(self, peer: Peer) -> None:
        try:
            lines = peer.channel.read_lines()
        except OSError:
            lines = None
        if lines is None:
            self._end(peer)
        for line in lines or ():
            if peer.number in self._peers:
                self._take(peer, line)

    def _take(self, peer: Peer, line: bytes) -> None:
        try:
            request = decode_one_of(REQUESTS, from_line(line))
            if request is None:
                raise MessageError("an unknown request")
            self._handle(peer, request)
        except (CoordinationRefused, MessageError) as error:
            self._send(peer, Refused(error="refused", message=str(error)))
        except (KeyError, ValueError):  # no such coordination, or a request in the wrong order
            self._end(peer)

    def _handle(self, peer: Peer, request: CoordinationRequest) -> None:
        if isinstance(request, Join):
            self._join(peer, request)
        elif isinstance(request, Attach):
            self._attach(peer, request)
        elif peer.group is None:
            self._end(peer)
        elif isinstance(request, (Begin, Next, AskWork)):
            self._ask(peer, peer.group, request)
        else:
            self._tell(peer, peer.group, request)

    def _join(self, peer: Peer, message: Join) -> None:
        name = message.name
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name, message, peer.pid, self._left_bytes())
        group.check(message, peer.pid)
        if len(group.staging.members) >= group.staging.jobs:
            raise CoordinationRefused(
                f"{name!r} already has its {group.staging.jobs} jobs; another may join when one "
                "has left"
            )
        try:
            peer.pidfd = os.pidfd_open(peer.pid)
        except OSError:  # the process has ended already
            self._end(peer)
            return
        # Children of a killed job may keep its connection open, so the pidfd watches the job.
        self._selector.register(peer.pidfd, selectors.EVENT_READ, lambda: self._end(peer))
        peer.group, peer.member = group, group.staging.join()
        group.pids[peer.member] = peer.pid
        answer = Joined(member=peer.member, slot_bytes=group.slot_bytes, bytes=group.size_bytes)
        self._send(peer, answer, group.fd)

    def _attach(self, peer: Peer, message: Attach) -> None:
        group = self._groups.get(message.name)
        if group is None or message.member not in group.staging.members:
            self._end(peer)
            return
        peer.group, peer.member, peer.is_worker = group, message.member, True
        self._send(peer, Heard(ok=True))

    def _ask(self, peer: Peer, group: Group, request: Begin | Next | AskWork) -> None:
        peer.asked, peer.since_s = request, time.monotonic()
        if isinstance(request, Begin):
            group.staging.begin(peer.member)
        elif isinstance(request, AskWork):
            if peer.member not in group.staging.members:
                self._end(peer)
                return
            group.staging.readmit(peer.member)

    def _tell(self, peer: Peer, group: Group, request: CoordinationRequest) -> None:
        staging = group.staging
        if isinstance(request, Filled):
            staging.filled(peer.number, request.layout)
        elif isinstance(request, Failed):
            staging.fail(peer.number)
        elif isinstance(request, Used):
            staging.used(peer.member)
        elif isinstance(request, Abandon):
            staging.abandon(peer.member)
        self._send(peer, Heard(ok=True))

    def _try_answer(self, peer: Peer) -> bool:
        """Answers the request that a peer waits on, if the answer is known or the wait took too
        long. Returns whether it sent an answer."""
        group = peer.group
        if group is None or peer.asked is None:
            return False
        answer = self._answer(peer, group)
        if answer is None and not isinstance(peer.asked, AskWork):
            if time.monotonic() - peer.since_s <= group.wait_s:
                return False
            what = group.waits_for(isinstance(peer.asked, Begin))
            said = f"{group.name!r}: waited {group.wait_s:g} s: {what}"
            answer = Refused(error="timeout", message=said)
        if answer is None:
            return False
        peer.asked = None
        self._send(peer, answer)
        return True

    def _answer(self, peer: Peer, group: Group) -> Message | None:
        staging = group.staging
        if isinstance(peer.asked, Begin):
            return Begun(epoch=staging.epoch) if staging.has_begun(peer.member) else None
        if isinstance(peer.asked, AskWork):
            grant = staging.work(peer.number, peer.member)
            if grant is None:
                return None
            return Granted(epoch=grant.epoch, batch=grant.batch, slot=grant.slot)
        if peer.member in staging.failed and peer.told < staging.epoch:
            peer.told = staging.epoch
            said = "the preparation of a batch raised in this job"
            return Refused(error="failed", message=said)
        found = staging.next(peer.member)
        if found is not None:
            batch, slot, layout = found
            return Batch(batch=batch, slot=slot, layout=layout)
        if staging.is_hopeless():
            said = f"{group.name!r}: no job can prepare a batch: it raised in each of them"
            return Refused(error="failed", message=said)
        return None

    def _send(self, peer: Peer, message: Message, fd: int | None = None) -> None:
        try:
            peer.channel.send(message, fd)
        except OSError:
            self._end(peer)

    def _end(self, peer: Peer) -> None:
        """Removes a connection that has closed. If it was a member's, the member leaves the
        coordination."""
        if self._peers.pop(peer.number, None) is None:
            return
        peer.asked = None
        self._selector.unregister(peer.channel)
        peer.channel.close()
        if peer.pidfd >= 0:
            self._selector.unregister(peer.pidfd)
            os.close(peer.pidfd)
        group = peer.group
        if group is None:
            return
        if peer.is_worker:
            group.staging.end_worker(peer.number)
            return
        group.staging.leave(peer.member)
        self._end_workers(group, peer.member)
        if not group.staging.members and self._groups.get(group.name) is group:
            del self._groups[group.name]
            group.close()

    def _end_workers(self, group: Group, member: int) -> None:
        """Closes the connections of a member's workers after it has left. A worker that may still
        be writing keeps its connection until its next message."""
        for worker in list(self._peers.values()):
            is_its = worker.group is group and worker.is_worker and worker.member == member
            if is_its and worker.number not in group.staging.grants:
                self._end(worker)
