"""Messages between ranks in one process, for tests of what stands on them."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import deque

from fanstore.outputs.model.entries import failure
from fanstore.rank_calls.connected import ConnectedPeers

MOST_BYTES = 4 << 20  # as the node daemon's core has it


class MemoryMail:
    """The Mail of one rank. silent: what comes to it waits; cut: it cannot be reached. dropped:
    what is posted to it is lost."""

    def __init__(self, rank: int, net: list[MemoryMail]) -> None:
        self._rank = rank
        self._net = net
        self._inbox: deque[tuple[int, bytes]] = deque()
        self._lost: set[int] = set()
        self.message_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.silent = self.cut = self.dropped = False
        self.full = False
        self.posted = 0

    def post(self, rank: int, data: bytes) -> None:
        if len(data) > MOST_BYTES:
            raise failure(errno.EMSGSIZE)
        if self.full:
            raise failure(errno.ENOMEM)
        if rank in self._lost or self._net[rank].cut:
            raise failure(errno.EREMOTEIO)
        self.posted += 1
        if not self._net[rank].dropped:
            self._net[rank].deliver(self._rank, data)

    def deliver(self, sender: int, data: bytes) -> None:
        self._inbox.append((sender, data))
        self._flag()

    def speak(self) -> None:
        """Ends its silence."""
        self.silent = False
        self._flag()

    def _flag(self) -> None:
        if self._inbox and not self.silent:
            os.eventfd_write(self.message_fd, 1)

    def take(self) -> tuple[int, bytes] | None:
        if self.silent or not self._inbox:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self.message_fd)
            return None
        return self._inbox.popleft()

    def is_lost(self, rank: int) -> bool:
        return rank in self._lost

    def lose(self, rank: int) -> None:
        self._lost.add(rank)


class Net:
    """Ranks whose Peers run in the running loop. Closed at the end of `async with`."""

    def __init__(self, count: int, deadline_s: float = 30.0) -> None:
        self.mails: list[MemoryMail] = []
        for rank in range(count):
            self.mails.append(MemoryMail(rank, self.mails))
        self.peers = [
            ConnectedPeers(n, count, mail, deadline_s) for n, mail in enumerate(self.mails)
        ]

    async def __aenter__(self) -> Net:
        for peers in self.peers:
            peers.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for peers, mail in zip(self.peers, self.mails, strict=True):
            peers.close()
            os.close(mail.message_fd)
