"""The node daemon's side: one thread owns all coordinations of the job, and alone changes them."""

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
from typing import Any

from fanstore.coordinate.errors import CoordinationRefused
from fanstore.coordinate.group import Group
from fanstore.coordinate.wire import Wire

_LOOK_EVERY_S = 0.1
_SEND_S = 5.0
Message = dict[str, Any]


@dataclass
class Peer:
    """A connection: of a member, or of one of its workers. asked: what it waits for."""

    number: int
    wire: Wire
    pid: int
    group: Group | None = None
    member: int = 0
    is_worker: bool = False
    asked: str = ""
    since_s: float = 0.0
    pidfd: int = -1
    told: int = -1  # the epoch in which it was told that its preparation raised


class Service:
    """Answers at a bound socket until it is closed."""

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
        """Begins to answer."""
        self._listener.listen(64)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wakeup, selectors.EVENT_READ, None)
        self._thread.start()

    def close(self) -> None:
        """Ends all coordinations: their members are told by the end of their connections."""
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
                peer.wire.close()
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
            wire = Wire(stream)
            pid, uid = wire.peer()
            if uid != os.getuid():
                wire.close()
                return
            self._count += 1
            peer = self._peers[self._count] = Peer(self._count, wire, pid)
            self._selector.register(wire, selectors.EVENT_READ, lambda: self._hear(peer))

    def _hear(self, peer: Peer) -> None:
        try:
            message = peer.wire.receive()[0]
        except (OSError, ValueError):
            message = None
        if message is None:
            self._end(peer)
        elif message and peer.number in self._peers:
            try:
                self._handle(peer, message)
            except CoordinationRefused as error:
                self._send(peer, {"error": "refused", "message": str(error)})
            except (KeyError, TypeError, ValueError):
                self._end(peer)

    def _handle(self, peer: Peer, message: Message) -> None:
        operation = message["op"]
        if operation == "join":
            self._join(peer, message)
        elif operation == "attach":
            self._attach(peer, message)
        elif peer.group is None:
            self._end(peer)
        elif operation in ("begin", "next", "work"):
            self._ask(peer, peer.group, operation)
        else:
            self._tell(peer, peer.group, operation, message)

    def _join(self, peer: Peer, message: Message) -> None:
        name = str(message["name"])
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
        except OSError:  # it has died already
            self._end(peer)
            return
        # Children of a killed job may hold its connection: its own end is what counts.
        self._selector.register(peer.pidfd, selectors.EVENT_READ, lambda: self._end(peer))
        peer.group, peer.member = group, group.staging.join()
        group.pids[peer.member] = peer.pid
        answer = {"member": peer.member, "slot_bytes": group.slot_bytes, "bytes": group.size_bytes}
        self._send(peer, answer, group.fd)

    def _attach(self, peer: Peer, message: Message) -> None:
        group = self._groups.get(str(message["name"]))
        if group is None or message["member"] not in group.staging.members:
            self._end(peer)
            return
        peer.group, peer.member, peer.is_worker = group, message["member"], True
        self._send(peer, {"ok": True})

    def _ask(self, peer: Peer, group: Group, operation: str) -> None:
        peer.asked, peer.since_s = operation, time.monotonic()
        if operation == "begin":
            group.staging.begin(peer.member)
        elif operation == "work":
            if peer.member not in group.staging.members:
                self._end(peer)
                return
            group.staging.readmit(peer.member)

    def _tell(self, peer: Peer, group: Group, operation: str, message: Message) -> None:
        staging = group.staging
        if operation == "filled":
            staging.filled(peer.number, message["layout"])
        elif operation == "failed":
            staging.fail(peer.number)
        elif operation == "used":
            staging.used(peer.member)
        elif operation == "abandon":
            staging.abandon(peer.member)
        else:
            raise ValueError(operation)
        self._send(peer, {"ok": True})

    def _try_answer(self, peer: Peer) -> bool:
        """Answers what a peer waits for, if that is there; returns whether it was answered."""
        group = peer.group
        if group is None or not peer.asked:
            return False
        answer = self._answer(peer, group)
        if answer is None and peer.asked != "work":
            if time.monotonic() - peer.since_s <= group.wait_s:
                return False
            what = group.waits_for(peer.asked)
            said = f"{group.name!r}: waited {group.wait_s:g} s: {what}"
            answer = {"error": "timeout", "message": said}
        if answer is None:
            return False
        peer.asked = ""
        self._send(peer, answer)
        return True

    def _answer(self, peer: Peer, group: Group) -> Message | None:
        staging = group.staging
        if peer.asked == "begin":
            return {"epoch": staging.epoch} if staging.has_begun(peer.member) else None
        if peer.asked == "work":
            grant = staging.work(peer.number, peer.member)
            return None if grant is None else {
                "epoch": grant.epoch, "batch": grant.batch, "slot": grant.slot
            }  # fmt: skip
        if peer.member in staging.failed and peer.told < staging.epoch:
            peer.told = staging.epoch
            return {"error": "failed", "message": "the preparation of a batch raised in this job"}
        found = staging.next(peer.member)
        if found is not None:
            return dict(zip(("batch", "slot", "layout"), found, strict=True))
        if staging.is_hopeless():
            said = f"{group.name!r}: no job can prepare a batch: it raised in each of them"
            return {"error": "failed", "message": said}
        return None

    def _send(self, peer: Peer, message: Message, fd: int | None = None) -> None:
        try:
            peer.wire.send(message, fd)
        except OSError:
            self._end(peer)

    def _end(self, peer: Peer) -> None:
        """Forgets a connection that ended; with a member's, the member."""
        if self._peers.pop(peer.number, None) is None:
            return
        peer.asked = ""
        self._selector.unregister(peer.wire)
        peer.wire.close()
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
        """Ends workers of a member that has left, but those that may be writing: they end when they
        have told what they wrote."""
        for worker in list(self._peers.values()):
            is_its = worker.group is group and worker.is_worker and worker.member == member
            if is_its and worker.number not in group.staging.grants:
                self._end(worker)
