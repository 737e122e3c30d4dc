"""The sessions of clients that share the block cache: each client keeps a connection open while it
runs."""

from __future__ import annotations

import contextlib
import resource
import selectors
from collections.abc import Callable

from fanstore.messages.channel import Channel, peer_pid
from fanstore.messages.requests import Refusal, SessionBegun
from fanstore.node.core import Node

# Descriptors that sessions must leave free for MPI's connections, `fanstore status` and files: the
# daemon cannot go on without them.
_SPARE_DESCRIPTORS = 32


class Sessions:
    """Begins a session for each client that asks, and ends it when the client's connection
    closes."""

    def __init__(
        self, selector: selectors.BaseSelector, node: Node | None, warn: Callable[[str], None]
    ) -> None:
        """warn: prints a line once, at the end of the job."""
        self._selector = selector
        self._node = node
        self._warn = warn
        self._live: dict[Channel, int] = {}
        self._has_refused = False

    def begin(self, channel: Channel) -> None:
        """Answers with the session's number and the cache's memory file, or with a Refusal."""
        if self._node is None:
            channel.try_send(Refusal(error="nothing is remote"))
            return
        if not _has_room(channel):
            self._refuse(channel, "no descriptor is left for them: raise ulimit -Hn")
            return
        number = self._node.begin_session(peer_pid(channel.socket))
        if number is None:
            self._refuse(channel, "the block cache has no room for them")
            return
        self._live[channel] = number
        try:
            channel.send(SessionBegun(session=number), self._node.cache_fd)
        except OSError:
            self._end(channel)
            return
        self._selector.register(channel, selectors.EVENT_READ, lambda: self._hear(channel))

    def _refuse(self, channel: Channel, why: str) -> None:
        if not self._has_refused:
            self._has_refused = True
            self._warn(
                f"{len(self._live)} programs read remote files at once; more of them read from the "
                f"shared file system, as {why}"
            )
        channel.try_send(Refusal(error="every session is taken"))

    def owns(self, channel: Channel) -> bool:
        """Returns whether `channel` is a client's connection, which stays open until the client
        ends."""
        return channel in self._live

    def _hear(self, channel: Channel) -> None:
        """Ends a session. A client sends nothing after its first request, so a readable connection
        means that the client has closed it."""
        with contextlib.suppress(OSError):
            if channel.socket.recv(4096):
                return
        self._selector.unregister(channel)
        self._end(channel)
        channel.close()

    def _end(self, channel: Channel) -> None:
        number = self._live.pop(channel)
        if self._node is not None:
            self._node.end_session(number)


def _has_room(channel: Channel) -> bool:
    """Returns whether one more connection may stay open. The kernel assigns the lowest free
    descriptor, so its number tells how many are in use."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit == resource.RLIM_INFINITY or channel.fileno() < limit - _SPARE_DESCRIPTORS
