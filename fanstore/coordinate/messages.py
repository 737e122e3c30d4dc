"""Messages between the members of a coordination, their workers, and the node daemon, over the
socket `coordinate` of the job directory. A request is answered before the next one is sent."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from fanstore.messages.message import Message, NamedMessage

COORDINATE_SOCKET = "coordinate"


class ArrayLayout(Message):
    """An array of a batch in its slot. kind: NumPy's name of the type; offset: bytes."""

    kind: str
    shape: Sequence[int]
    offset: int


class CoordinationRequest(NamedMessage):
    """What a member or a worker asks for."""

    KEY: ClassVar[str] = "op"


class Join(CoordinationRequest):
    """A process wants to be a member; the arguments are those of fanstore.coordinate.join."""

    NAME: ClassVar[str] = "join"

    name: str
    jobs: int
    batches: int
    batch_bytes: int
    window: int
    workers: int
    deadline_s: float
    wait_s: float
    fingerprint: Mapping[str, str]


class Joined(Message):
    """member: its number; bytes: of the staging area, whose descriptor comes along."""

    member: int
    slot_bytes: int
    bytes: int


class Attach(CoordinationRequest):
    """A worker of a member begins."""

    NAME: ClassVar[str] = "attach"

    name: str
    member: int


class Begin(CoordinationRequest):
    """A member wants the next epoch."""

    NAME: ClassVar[str] = "begin"


class Begun(Message):
    """It has begun."""

    epoch: int


class Next(CoordinationRequest):
    """A member wants its next batch."""

    NAME: ClassVar[str] = "next"


class Batch(Message):
    """A batch that is ready. slot: -1 at the end of the epoch, and there is no layout then."""

    batch: int
    slot: int
    layout: Sequence[ArrayLayout]


class Used(CoordinationRequest):
    """A member has copied its batch."""

    NAME: ClassVar[str] = "used"


class Abandon(CoordinationRequest):
    """A member uses no more batches of this epoch."""

    NAME: ClassVar[str] = "abandon"


class AskWork(CoordinationRequest):
    """A worker wants a batch to prepare."""

    NAME: ClassVar[str] = "work"


class Granted(Message):
    """It may write that one into a slot."""

    epoch: int
    batch: int
    slot: int


class Filled(CoordinationRequest):
    """It has."""

    NAME: ClassVar[str] = "filled"

    layout: Sequence[ArrayLayout]


class Failed(CoordinationRequest):
    """The preparation raised."""

    NAME: ClassVar[str] = "failed"


class Heard(Message):
    """The answer to what needs none."""

    ok: bool


class Refused(Message):
    """error: a key of fanstore.coordinate.errors.BY_KIND."""

    error: str
    message: str


REQUESTS: tuple[type[CoordinationRequest], ...] = (
    Join, Attach, Begin, Next, Used, Abandon, AskWork, Filled, Failed,
)  # fmt: skip
