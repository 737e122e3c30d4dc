"""Requests to a daemon at its socket `sock`, and the answers. The daemon answers a request that it
cannot fulfil with a Refusal."""

from collections.abc import Sequence
from typing import ClassVar

from fanstore.messages.message import Message, NamedMessage

NUMBERS_MAX = 4096  # records or blocks in one request


class DaemonRequest(NamedMessage):
    """A request of one of the daemon's clients."""

    KEY: ClassVar[str] = "op"


class Refusal(Message):
    """The answer to a request that cannot be fulfilled. error: the reason."""

    error: str


class BeginSession(DaemonRequest):
    """From a program that reads remote files: asks for a session number and the block cache's
    memory file (csrc/client/content/session.c)."""

    NAME: ClassVar[str] = "session"


class SessionBegun(Message):
    """session: the number. The descriptor of the block cache comes with this message."""

    session: int


class AskStatus(DaemonRequest):
    """Asks the daemon for the Status of its job."""

    NAME: ClassVar[str] = "status"


class StopJob(DaemonRequest):
    """Asks a daemon that has no wrapper to end. flush: whether it waits for its outputs first."""

    NAME: ClassVar[str] = "stop"

    flush: bool = True


class Stopping(Message):
    """The daemon ends; its last messages follow this one."""

    stopping: bool


class ListMounts(DaemonRequest):
    """Asks for the mounts of a job; their order gives the numbers that other requests use."""

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
    """dropped: hints that have found no room so far."""

    mounts: Sequence[MountDescription]
    dropped: int


class BringNear(DaemonRequest):
    """Asks the daemon to bring blocks of records near, and for where each block is now."""

    NAME: ClassVar[str] = "reach"

    mount: int
    records: Sequence[int]
    blocks: Sequence[int]


class Reached(Message):
    """reached: an enum fan_reach for each block; dropped: hints that have found no room so far."""

    reached: Sequence[int]
    dropped: int


class KeepRecords(DaemonRequest):
    """Asks the daemon to bring records of this node's share to its disk."""

    NAME: ClassVar[str] = "keep"

    mount: int
    records: Sequence[int]


class Keeping(Message):
    """number: the number to give in AskKeeping."""

    number: int


class AskKeeping(DaemonRequest):
    """Asks whether records are still being brought to the disk."""

    NAME: ClassVar[str] = "keeping"

    number: int


class KeepingState(Message):
    """goes_on: whether records are still being brought."""

    goes_on: bool


REQUESTS: tuple[type[DaemonRequest], ...] = (
    BeginSession, AskStatus, StopJob, ListMounts, BringNear, KeepRecords, AskKeeping,
)  # fmt: skip
