"""Messages between the members of a coordination, their workers, and the node daemon, over the
socket `coordinate` of the job directory; and the exceptions that refusals become. A request is
answered before the next one is sent."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from fanstore.errors import FanstoreError
from fanstore.messages.message import Message, NamedMessage

COORDINATE_SOCKET = "coordinate"


class ArrayLayout(Message):
    """One array of a batch. kind: dtype.str of NumPy; offset: in bytes from the slot's start."""

    kind: str
    shape: Sequence[int]
    offset: int


class CoordinationRequest(NamedMessage):
    """A request of a member or a worker."""

    KEY: ClassVar[str] = "op"


class Join(CoordinationRequest):
    """A process asks to be a member; the fields are the arguments of fanstore.coordinate.join."""

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
    """The answer to Join. member: its number; slot_bytes: size of a slot; bytes: size of the
    staging area, whose file descriptor comes with this message."""

    member: int
    slot_bytes: int
    bytes: int


class Attach(CoordinationRequest):
    """Sent by a worker of a member when it connects."""

    NAME: ClassVar[str] = "attach"

    name: str
    member: int


class Begin(CoordinationRequest):
    """A member asks to begin the next epoch."""

    NAME: ClassVar[str] = "begin"


class Begun(Message):
    """The answer to Begin: the epoch has begun, and this is its number."""

    epoch: int


class Next(CoordinationRequest):
    """A member asks for its next batch."""

    NAME: ClassVar[str] = "next"


class Batch(Message):
    """The answer to Next: a batch that is ready. At the end of the epoch, slot is -1 and layout
    empty."""

    batch: int
    slot: int
    layout: Sequence[ArrayLayout]


class Used(CoordinationRequest):
    """A member has copied the batch, and needs its slot no more."""

    NAME: ClassVar[str] = "used"


class Abandon(CoordinationRequest):
    """A member reads no more batches of this epoch."""

    NAME: ClassVar[str] = "abandon"


class AskWork(CoordinationRequest):
    """A worker asks for a batch to prepare."""

    NAME: ClassVar[str] = "work"


class Granted(Message):
    """The answer to AskWork: the worker may write this batch into this slot."""

    epoch: int
    batch: int
    slot: int


class Filled(CoordinationRequest):
    """The worker has written the batch that it was granted, with this layout."""

    NAME: ClassVar[str] = "filled"

    layout: Sequence[ArrayLayout]


class Failed(CoordinationRequest):
    """`prepare` raised an exception for the batch that the worker was granted."""

    NAME: ClassVar[str] = "failed"


class Heard(Message):
    """The daemon has handled the request; the answer to requests that ask for nothing."""

    ok: bool


class Refused(Message):
    """The answer to a request that failed. error: a key of fanstore.coordinate.messages.BY_KIND."""

    error: str
    message: str


REQUESTS: tuple[type[CoordinationRequest], ...] = (
    Join, Attach, Begin, Next, Used, Abandon, AskWork, Filled, Failed,
)  # fmt: skip


class CoordinationError(FanstoreError):
    """A failure of coordinated preparation; the base class of the exceptions below."""


class CoordinationRefused(CoordinationError):
    """The job may not join: it disagrees with the others, or memory is too small."""


class CoordinationTimeout(CoordinationError):
    """A wait reached its deadline; the message names the processes that the job waited for."""


class CoordinationLost(CoordinationError):
    """The node daemon no longer answers, or this process is no member of the coordination."""


class PreparationFailed(CoordinationError):
    """`prepare` raised an exception in this job; the message holds its traceback."""


BY_KIND: dict[str, type[CoordinationError]] = {
    "refused": CoordinationRefused,
    "timeout": CoordinationTimeout,
    "lost": CoordinationLost,
    "failed": PreparationFailed,
}
