"""Requests to a daemon at its socket `sock`, and the answers. Whatever cannot be answered is
answered by a Refusal."""

from collections.abc import Sequence
from typing import ClassVar

from fanstore.messages.message import Message, NamedMessage

NUMBERS_MAX = 4096  # records or blocks in one request


class DaemonRequest(NamedMessage):
    """What a client of the daemon asks for."""

    KEY: ClassVar[str] = "op"


class Refusal(Message):
    """error: why there is no answer."""

    error: str


class BeginSession(DaemonRequest):
    """A program that reads remote files: wants a number and the block cache's memory file
    (csrc/client/content/session.c)."""

    NAME: ClassVar[str] = "session"


class SessionBegun(Message):
    """session: the number. The descriptor of the block cache comes along."""

    session: int


class AskStatus(DaemonRequest):
    """Wants a Status."""

    NAME: ClassVar[str] = "status"


class StopJob(DaemonRequest):
    """Wants a daemon by itself to end. flush: outputs are waited for."""

    NAME: ClassVar[str] = "stop"

    flush: bool = True


class Stopping(Message):
    """The daemon ends; what it tells of that follows."""

    stopping: bool


class ListMounts(DaemonRequest):
    """Wants the mounts of a job, by the numbers that the other requests name."""

    NAME: ClassVar[str] = "mounts"


class MountDescription(Message):
    """A mount. alias: another spelling of the prefix, or ""; index: path of the index; directory:
    of the dataset; staged: that of this node's copies, or "" where packs are read in place; places:
    the FAN_PLACE_* of each pack."""

    prefix: str
    alias: str
    index: str
    directory: str
    staged: str
    places: Sequence[int]


class MountList(Message):
    """dropped: hints that found no room so far."""

    mounts: Sequence[MountDescription]
    dropped: int


class BringNear(DaemonRequest):
    """Wants blocks of records to come near, and to know where each is by now."""

    NAME: ClassVar[str] = "reach"

    mount: int
    records: Sequence[int]
    blocks: Sequence[int]


class Reached(Message):
    """reached: an enum fan_reach for each block; dropped: hints that found no room so far."""

    reached: Sequence[int]
    dropped: int


class KeepRecords(DaemonRequest):
    """Wants records of this node's share to come to its disk."""

    NAME: ClassVar[str] = "keep"

    mount: int
    records: Sequence[int]


class Keeping(Message):
    """number: to ask by whether that goes on."""

    number: int


class AskKeeping(DaemonRequest):
    """Wants to know whether records are still being brought to the disk."""

    NAME: ClassVar[str] = "keeping"

    number: int


class KeepingState(Message):
    """goes_on: records are still being brought."""

    goes_on: bool


REQUESTS: tuple[type[DaemonRequest], ...] = (
    BeginSession, AskStatus, StopJob, ListMounts, BringNear, KeepRecords, AskKeeping,
)  # fmt: skip
