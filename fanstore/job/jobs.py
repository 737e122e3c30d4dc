"""Finds the jobs of this user below one local directory, and sends them requests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fanstore.errors import FanstoreError
from fanstore.messages.channel import LIVE_SOCKET, Channel, connect, open_stream
from fanstore.messages.job import (
    DEAD,
    SERVING,
    SILENT,
    TOLD_BY_DAEMON,
    AbsentRank,
    DaemonPid,
    Flushing,
    JobSummary,
    LeftJob,
    Status,
)
from fanstore.messages.message import (
    Message,
    MessageError,
    NamedMessage,
    decode,
    fields_of,
    from_line,
    replace,
)
from fanstore.messages.requests import AskStatus, DaemonRequest, StopJob, Stopping
from fanstore.messages.watched import WatchedRank
from fanstore.node.process import Process
from fanstore.outputs.tree.dead_job import left_behind
from fanstore.staging import locks
from fanstore.staging.base import StagingFolder

_STOP_WAIT_S = 60.0
_ANSWER_WAIT_S = 10.0
_RANKS_PATIENCE_S = 2.0
_HTTP_OK = 200

A = TypeVar("A", bound=Message)


@dataclass(frozen=True)
class FoundJob:
    """A job directory that was found. alive: a process holds its lock."""

    directory: str
    alive: bool

    @property
    def job_id(self) -> str:
        """The job's name on the command line."""
        return os.path.basename(self.directory)


class SeveralJobs(FanstoreError):
    """Several jobs match, `jobs`, and the user must choose one."""

    def __init__(self, jobs: list[FoundJob]) -> None:
        names = ", ".join(job.job_id for job in jobs)
        super().__init__(f"several jobs ({names}); name one with --job")
        self.jobs = jobs


def find_jobs(*local_dirs: str) -> list[FoundJob]:
    """Returns the jobs below the local directories, including dead ones."""
    found = []
    for path in (path for each in local_dirs for path in StagingFolder(each).entries("jobs")):
        with locks.free(os.path.join(path, "lock")) as unused:
            found.append(FoundJob(path, not unused))
    return found


def pick_job(
    local_dirs: Sequence[str],
    job_id: str | None,
    environ: Mapping[str, str],
    any_rank: bool = False,
) -> FoundJob:
    """Returns the job named `job_id`. Without a name, returns the job that this process runs in, or
    else the only live one, or the only one. any_rank: if all jobs found are ranks of one job on
    this node, any of them will do.

    Within a Slurm job, a job that another Slurm job started must be named. Raises FanstoreError if
    there is none, SeveralJobs if there are several."""
    jobs = find_jobs(*local_dirs)
    if job_id is not None:
        named = [job for job in jobs if job.job_id == job_id]
        if not named:
            where = StagingFolder(local_dirs[0]).path
            raise FanstoreError(
                f"no job {job_id} under {where}: `fanstore status --all` lists those that are there"
            )
        return named[0]
    if own := environ.get("FANSTORE_JOB_DIR"):
        with locks.free(os.path.join(own, "lock")) as unused:
            return FoundJob(own, not unused)
    jobs = [job for job in jobs if not _is_of_another(job, environ.get("SLURM_JOB_ID", ""))]
    chosen = [job for job in jobs if job.alive] or jobs
    if not chosen:
        looked_at = StagingFolder(local_dirs[0]).path
        raise FanstoreError(
            f"no job runs under {looked_at}: `fanstore run` and `fanstore start` start one; one "
            "with another local directory is found with --local-dir"
        )
    if len(chosen) > 1 and not (any_rank and _are_ranks_of_one(chosen)):
        raise SeveralJobs(chosen)
    return chosen[0]


def _are_ranks_of_one(jobs: list[FoundJob]) -> bool:
    """Returns whether the jobs are all ranks of one job. Each rank has its own job directory."""
    first_ids = {_left_behind(job).first_id for job in jobs}
    return len(first_ids) == 1 and not first_ids & {None, ""}


def _is_of_another(job: FoundJob, slurm_job: str) -> bool:
    """Returns whether a Slurm job other than `slurm_job` started this job. Several Slurm jobs of
    one user may share a node."""
    started_by = _left_behind(job).slurm_job
    return bool(slurm_job and started_by and started_by != slurm_job)


def ask(job: FoundJob, request: DaemonRequest, answer: type[A]) -> A:
    """Sends a request to the daemon of a job and returns its answer. Raises FanstoreError if it
    does not answer, or refuses."""
    with contextlib.closing(_connect(job)) as channel:
        return _request(job, channel, request, answer)


def ask_status(job: FoundJob) -> Status:
    """Returns the status of a job. Raises the errors of `ask`."""
    return ask(job, AskStatus(), Status)


def _connect(job: FoundJob) -> Channel:
    try:
        return connect(job.directory)
    except OSError as error:
        raise _no_answer(job, error) from None


def _no_answer(job: FoundJob, error: Exception) -> FanstoreError:
    return FanstoreError(f"job {job.job_id}: the node daemon does not answer: {error}")


def _request(job: FoundJob, channel: Channel, request: DaemonRequest, answer: type[A]) -> A:
    try:
        channel.send(request)
        line = channel.receive_line()
    except OSError as error:
        raise _no_answer(job, error) from None
    with _naming(job):
        plain = {"error": "no answer"} if line is None else from_line(line)
        if "error" in plain:
            raise FanstoreError(str(plain["error"]))
        return decode(answer, plain)


@contextlib.contextmanager
def _naming(job: FoundJob) -> Iterator[None]:
    """Adds the job's name to an error."""
    try:
        yield
    except FanstoreError as error:
        raise FanstoreError(f"job {job.job_id}: {error}") from None


def watch_ranks(
    job: FoundJob, patience_s: float, own: bool = False
) -> list[WatchedRank | AbsentRank]:
    """Returns the figures of all ranks of a job; with `own`, only those of this node's rank. Waits
    up to `patience_s` for silent ranks. Raises FanstoreError if this node's daemon does not
    answer."""
    return _ask_ranks(job, "figures", WatchedRank, patience_s, own)


def describe_ranks(job: FoundJob) -> list[Status | AbsentRank]:
    """Returns the status of all ranks. Raises the errors of `watch_ranks`."""
    return _ask_ranks(job, "status", Status, _RANKS_PATIENCE_S, own=False)


def _ask_ranks(
    job: FoundJob, what: str, kind: type[A], patience_s: float, own: bool
) -> list[A | AbsentRank]:
    from http.client import HTTPConnection, HTTPException

    connection = HTTPConnection("job", timeout=patience_s + _ANSWER_WAIT_S)
    with contextlib.closing(connection):
        try:
            connection.sock = open_stream(job.directory, LIVE_SOCKET, patience_s + _ANSWER_WAIT_S)
            ranks = "own" if own else "all"
            connection.request("GET", f"/{what}?ranks={ranks}&patience_s={patience_s:g}")
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, HTTPException) as error:
            raise _no_answer(job, error) from None
    if answer.status != _HTTP_OK:
        raise FanstoreError(f"job {job.job_id}: {body.decode(errors='replace').strip()}")
    with _naming(job):
        rows = from_line(body).get("ranks")
        if not isinstance(rows, list):
            raise MessageError("an answer without a list of ranks")
        return [_row(kind, row) for row in rows]


def _row(kind: type[A], row: object) -> A | AbsentRank:
    serves = isinstance(row, dict) and row.get("state", SERVING) == SERVING
    return decode(kind, row) if serves else decode(AbsentRank, row)


def describe_job(job: FoundJob) -> Status | LeftJob:
    """Returns the status of a job: from its daemon, or from the files that a dead daemon left."""
    if job.alive:
        try:
            return ask_status(job)
        except FanstoreError as error:
            return replace(_left_behind(job), state=SILENT, reason=str(error))
    return replace(_left_behind(job), state=DEAD, outputs=left_behind(job.directory))


def _left_behind(job: FoundJob) -> LeftJob:
    about: dict[str, object] = {"job_id": job.job_id, "job_directory": job.directory}
    with contextlib.suppress(OSError, MessageError):
        with open(os.path.join(job.directory, "job.json"), "rb") as stream:
            found = from_line(stream.read())
        for name in fields_of(LeftJob):  # field by field: another version may have written the file
            with contextlib.suppress(MessageError):
                decode(LeftJob, about | {name: found.get(name)})
                about[name] = found.get(name)
    return decode(LeftJob, about)


def stop_job(job: FoundJob, flush: bool, hear: Callable[[Flushing], None]) -> JobSummary | None:
    """Stops a daemon that has no wrapper, and waits until it has ended; goes on waiting as long as
    it reports outputs to copy. Calls `hear` with these reports. Returns the daemon's summary; None
    if it was killed."""
    daemon = Process(ask(job, AskStatus(), DaemonPid).daemon_pid)
    summary = None
    with contextlib.closing(_connect(job)) as channel:
        _request(job, channel, StopJob(flush=flush), Stopping)
        channel.socket.settimeout(_STOP_WAIT_S)
        for message in _messages(job, channel):
            if isinstance(message, JobSummary):
                summary = message
                break
            if isinstance(message, Flushing):
                hear(message)
    if not daemon.wait(_STOP_WAIT_S):
        raise FanstoreError(f"job {job.job_id}: has not ended within a minute")
    return summary


def _messages(job: FoundJob, channel: Channel) -> Iterator[NamedMessage]:
    try:
        with _naming(job):
            while (messages := channel.hear(TOLD_BY_DAEMON)) is not None:
                yield from messages
    except TimeoutError:
        raise FanstoreError(f"job {job.job_id}: has not ended within a minute") from None
