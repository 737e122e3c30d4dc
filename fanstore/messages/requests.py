"""Requests to a daemon at its socket `sock`, and the answers. The daemon answers a request that it
cannot fulfil with a Refusal."""

from collections.abc import Sequence
from typing import ClassVar

from fanstore.messages.message import Message, NamedMessage

NUMBERS_MAX = 4096  # the most records or blocks in one request


class DaemonRequest(NamedMessage):
    """A request to the daemon from a process on its node."""

    KEY: ClassVar[str] = "op"


class Refusal(Message):
    """The answer to a request that cannot be fulfilled. error: the reason."""

    error: str


class BeginSession(DaemonRequest):
    """Asks for a session number and the block cache's memory file, on behalf of a program that
    reads remote files (csrc/client/content/session.c)."""

    NAME: ClassVar[str] = "session"


class SessionBegun(Message):
    """The answer to BeginSession; the descriptor of the block cache comes with it. session: the
    number."""

    session: int


class BeginVisit(DaemonRequest):
    """Asks the daemon of another job to be the host of this one (fanstore.node.visit), and is its
    answer, too, with which the descriptor of the host's block cache comes. The messages in
    TOLD_BY_GUEST follow on the same connection. cache_bytes: how much content the sender's block
    cache may hold."""

    NAME: ClassVar[str] = "visit"

    cache_bytes: int


class Visitor(NamedMessage):
    """A program of the guest asks for a session; its connection comes with this message."""

    NAME: ClassVar[str] = "visitor"


class BeginOrder(NamedMessage):
    """A loader of the guest reads in an order; its records come in a memory file, as numbers of 64
    bits. order: a number that the guest has chosen; behind: the order that comes first, or 0."""

    NAME: ClassVar[str] = "begin_order"

    order: int
    mount: int
    behind: int


class PassOrder(NamedMessage):
    """Reports how far a loader of the guest is (fanstore.node.core.Node.pass_order)."""

    NAME: ClassVar[str] = "pass_order"

    order: int
    position: int
    read: int


class EndOrder(NamedMessage):
    """An order of the guest has ended."""

    NAME: ClassVar[str] = "end_order"

    order: int


class Present(NamedMessage):
    """Asks whether the host answers, and is its answer, too."""

    NAME: ClassVar[str] = "present"


class Dismissed(NamedMessage):
    """Tells a guest that it is one no longer. error: why."""

    NAME: ClassVar[str] = "dismissed"

    error: str


TOLD_BY_GUEST: tuple[type[NamedMessage], ...] = (
    Visitor, BeginOrder, PassOrder, EndOrder, Present,
)  # fmt: skip


class AskStatus(DaemonRequest):
    """Asks the daemon for the Status of its job."""

    NAME: ClassVar[str] = "status"


class StopJob(DaemonRequest):
    """Asks a daemon that has no wrapper to end. flush: whether it first copies its outputs."""

    NAME: ClassVar[str] = "stop"

    flush: bool = True


class Stopping(Message):
    """The answer to StopJob: the daemon ends. Its last messages follow this one."""

    stopping: bool


class ListMounts(DaemonRequest):
    """Asks for the mounts of a job. Other requests name a mount by its position in the answer."""

    NAME: ClassVar[str] = "mounts"


class MountDescription(Message):
    """A mount. alias: another spelling of the prefix, or ""; index: path of the index; directory:
    the dataset's; staged: the directory of this node's copies, or "" if packs are read in place;
    places: the FAN_PLACE_* of each pack."""

    prefix: str
    alias: str
    index: str
    directory: str
    staged: str
    places: Sequence[int]


class MountList(Message):
    """The answer to ListMounts. dropped: hints that were dropped so far because the queue was
    full."""

    mounts: Sequence[MountDescription]
    dropped: int


class BringNear(DaemonRequest):
    """Asks the daemon to fetch blocks to this node, and where each block is now."""

    NAME: ClassVar[str] = "reach"

    mount: int
    records: Sequence[int]
    blocks: Sequence[int]


class Reached(Message):
    """The answer to BringNear. reached: an enum fan_reach for each block; dropped: hints that were
    dropped so far because the queue was full."""

    reached: Sequence[int]
    dropped: int


class KeepRecords(DaemonRequest):
    """Asks the daemon to copy records of this node's share to its disk."""

    NAME: ClassVar[str] = "keep"

    mount: int
    records: Sequence[int]


class Keeping(Message):
    """The answer to KeepRecords. number: identifies the request in AskKeeping."""

    number: int


class AskKeeping(DaemonRequest):
    """Asks whether the daemon is still copying the records of a KeepRecords request."""

    NAME: ClassVar[str] = "keeping"

    number: int


class KeepingState(Message):
    """The answer to AskKeeping. goes_on: whether records are still being copied."""

    goes_on: bool


REQUESTS: tuple[type[DaemonRequest], ...] = (
    BeginSession, BeginVisit, AskStatus, StopJob, ListMounts, BringNear, KeepRecords, AskKeeping,
)  # fmt: skip
