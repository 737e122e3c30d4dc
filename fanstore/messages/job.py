"""What a daemon reports about its job, and the messages between a daemon and its parent."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from fanstore.messages.figures import (
    BucketFigures,
    Counters,
    DatasetFigures,
    MemoryFigures,
    NodeFigures,
    OrderFigures,
    OutputAccount,
    OutputFigures,
    TraceFigures,
)
from fanstore.messages.message import Message, NamedMessage

SERVING, DEAD, SILENT, LOST = "serving", "dead", "not answering", "lost"  # states of a job's rank


class JobDescription(Message):
    """Facts about a job that stay the same while it runs. kind: "run" or "start"; first_id: the
    job's id on rank 0; metrics: the URL for Prometheus, or ""; preload: path of the library;
    started_s: seconds since 1970."""

    job_id: str
    job_directory: str
    kind: str
    rank: int
    host: str
    first_id: str
    metrics: str
    world_size: int
    daemon_pid: int
    preload: str
    started_s: float
    datasets: Sequence[DatasetFigures]


class JobFigures(Message):
    """Counts of a rank's programs and daemon. processes: programs that loaded the library;
    lost_ranks: other ranks that do not answer this one; node, trace, order, buckets: None if the
    job has none; raw_calls: programs whose own system calls bypassed FanStore."""

    counters: Counters
    processes: int
    lost_ranks: Sequence[int]
    node: NodeFigures | None
    outputs: OutputFigures | None
    trace: TraceFigures | None
    order: OrderFigures | None
    raw_calls: Sequence[str]
    memory: MemoryFigures
    buckets: BucketFigures | None = None


class _State(Message):
    """Part of a status. removed: names of files of the job directory that are missing because some
    other program removed them."""

    state: str
    removed: Sequence[str]


class Status(JobFigures, _State, JobDescription):
    """The status of a rank that serves, as `fanstore status` shows it."""


class AbsentRank(Message):
    """A rank that does not answer. state: SILENT, for `silent_s`, or LOST."""

    rank: int
    host: str
    state: str
    silent_s: float | None = None


class WaitingOutputs(Message):
    """The outputs that a killed daemon left on its node, and may not have placed. Has no fields,
    because the outputs cannot be known."""

    waiting: int | None = None
    waiting_bytes: int | None = None
    output_dir: str | None = None


class DaemonPid(Message):
    """The pid alone of a Status: daemons of every version send it, so that any of them can be
    stopped."""

    daemon_pid: int


class LeftJob(Message):
    """A job whose daemon does not answer, described by its directory. state: DEAD, or SILENT with
    the `reason`."""

    job_id: str
    job_directory: str
    datasets: Sequence[DatasetFigures] = ()
    daemon_pid: int | None = None
    slurm_job: str | None = None
    kind: str | None = None
    rank: int | None = None
    host: str | None = None
    first_id: str | None = None
    metrics: str | None = None
    world_size: int | None = None
    preload: str | None = None
    started_s: float | None = None
    state: str = DEAD
    reason: str | None = None
    outputs: WaitingOutputs | None = None


class Ready(JobDescription, NamedMessage):
    """The daemon serves. locks: paths of lock files; while a process holds them, nothing that the
    job uses is removed."""

    NAME: ClassVar[str] = "ready"

    trace: TraceFigures | None
    locks: Sequence[str]
    warnings: Sequence[str]


class Failure(NamedMessage):
    """The daemon could not start. told: the user has seen the error already."""

    NAME: ClassVar[str] = "error"

    message: str
    exit_code: int
    told: bool = False


class Stall(NamedMessage):
    """Reads have been waiting for a rank, or for the shared file system."""

    NAME: ClassVar[str] = "stall"

    line: str


class Flushing(OutputFigures, NamedMessage):
    """The daemon still copies outputs to the output directory."""

    NAME: ClassVar[str] = "flushing"


class Waiting(NamedMessage):
    """The daemon waits at its end. The field is the number of other ranks that may still read from
    it."""

    NAME: ClassVar[str] = "waiting"

    ranks: int


class AskedReport(Message):
    """The report to write at the end of the job. page: its path; trace: the path of the trace that
    it describes."""

    page: str
    trace: str


class FinalStatus(Status):
    """The last status of a rank, sent when the job ends. served_s: from the moment when it served
    to the end of its command, or to `fanstore stop`; waited_s: how long its programs waited, all
    threads together, by source; first_refused: the path of an input that a program tried to change
    first, or ""."""

    outputs: OutputAccount | None
    served_s: float
    waited_s: Mapping[str, float]
    first_refused: str


class JobSummary(FinalStatus, NamedMessage):
    """The report of a rank at its end. any_looked: whether the command of any rank opened an input
    or looked for one (has_looked); None if some ranks are missing. ranks: the status of all ranks,
    on rank 0 only. left: files of somebody else in the mount prefixes."""

    NAME: ClassVar[str] = "summary"

    any_looked: bool | None = None
    ranks: Sequence[FinalStatus] | None = None
    trace_lines: Sequence[str]
    report: AskedReport | None
    left: Sequence[str]
    warnings: Sequence[str]

    def all_ranks(self) -> Sequence[FinalStatus]:
        """Returns the status of all ranks if it is known, else of this rank alone."""
        return [self] if self.ranks is None else self.ranks


TOLD_BY_DAEMON: tuple[type[NamedMessage], ...] = (
    Ready,
    Failure,
    Stall,
    Flushing,
    Waiting,
    JobSummary,
)


class Command(NamedMessage):
    """The process id of the command that the wrapper runs."""

    NAME: ClassVar[str] = "command"

    pid: int


class End(NamedMessage):
    """The wrapper tells the daemon that the command has ended."""

    NAME: ClassVar[str] = "end"


class GiveUp(NamedMessage):
    """The daemon must not wait for outputs any longer."""

    NAME: ClassVar[str] = "give_up"


TOLD_BY_WRAPPER: tuple[type[NamedMessage], ...] = (Command, End, GiveUp)


def has_looked(status: Status) -> bool:
    """Returns whether the command of a rank opened an input, or looked for one. Looks alone count
    only if it made no outputs, because making an output looks at its directory, too. status: that
    rank's."""
    counted = status.counters
    opened = counted.opens or counted.directory_opens or counted.refused_writes or counted.errors
    published = status.outputs is not None and status.outputs.published
    return bool(opened or ((counted.stats or counted.missing) and not published))
