"""Finds the jobs of this user below one local directory, and talks to them."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fanstore.errors import FanstoreError
from fanstore.messages import LIVE_SOCKET, Channel, connect, open_stream
from fanstore.node.process import Process
from fanstore.outputs.tree.dead_job import left_behind
from fanstore.staging import locks
from fanstore.staging.base import StagingFolder

_STOP_WAIT_S = 60.0
_ANSWER_WAIT_S = 10.0
_RANKS_PATIENCE_S = 2.0
_HTTP_OK = 200
_LEFT = ("waiting", "waiting_bytes", "output_dir")


@dataclass(frozen=True)
class FoundJob:
    """A job directory that was found. alive: somebody holds its lock."""

    directory: str
    alive: bool

    @property
    def job_id(self) -> str:
        """The job's name on the command line."""
        return os.path.basename(self.directory)


class SeveralJobs(FanstoreError):
    """There is more than one job to choose from: `jobs`."""

    def __init__(self, jobs: list[FoundJob]) -> None:
        names = ", ".join(job.job_id for job in jobs)
        super().__init__(f"several jobs ({names}); name one with --job")
        self.jobs = jobs


def find_jobs(*local_dirs: str) -> list[FoundJob]:
    """The jobs below local directories, dead ones included."""
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
    """Returns the job named; else the one this process runs in; else the only one alive, or the
    only one. any_rank: of several ranks of one job on this node any will do.

    Within a Slurm job, one that was started by another Slurm job has to be named. Raises
    FanstoreError when there is none, SeveralJobs when there is more than one to choose from.
    """
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
            f"no job under {looked_at}: `fanstore start` starts one; one with another local "
            "directory is found with --local-dir"
        )
    if len(chosen) > 1 and not (any_rank and _are_ranks_of_one(chosen)):
        raise SeveralJobs(chosen)
    return chosen[0]


def _are_ranks_of_one(jobs: list[FoundJob]) -> bool:
    """Tells whether ranks of one job are all that is there. Each has a job directory."""
    first_ids = {_left_behind(job).get("first_id") for job in jobs}
    return len(first_ids) == 1 and not first_ids & {None, ""}


def _is_of_another(job: FoundJob, slurm_job: str) -> bool:
    """Tells whether another Slurm job than `slurm_job` started it: one user's jobs may share a
    node."""
    started_by = _left_behind(job).get("slurm_job")
    return bool(slurm_job and started_by and started_by != slurm_job)


def ask(job: FoundJob, operation: str, **arguments: Any) -> dict[str, Any]:
    """Returns the daemon's answer. Raises FanstoreError when it does not answer, or refuses."""
    with contextlib.closing(_connect(job)) as channel:
        return _request(job, channel, {"op": operation, **arguments})


def _connect(job: FoundJob) -> Channel:
    try:
        return connect(job.directory)
    except OSError as error:
        raise _no_answer(job, error) from None


def _no_answer(job: FoundJob, error: Exception) -> FanstoreError:
    return FanstoreError(f"job {job.job_id}: the node daemon does not answer: {error}")


def _request(job: FoundJob, channel: Channel, request: dict[str, Any]) -> dict[str, Any]:
    try:
        channel.send(request)
        answer = channel.receive()
    except OSError as error:
        raise _no_answer(job, error) from None
    if answer is None or "error" in answer:
        reason = "no answer" if answer is None else answer["error"]
        raise FanstoreError(f"job {job.job_id}: {reason}")
    return answer


def ask_ranks(
    job: FoundJob, what: str, patience_s: float, own: bool = False
) -> list[dict[str, Any]]:
    """Returns what all ranks of a job answer to "figures" or "status", a row for each
    (fanstore.watch.gather); with `own`, this node's rank alone. Silent ranks are waited for during
    `patience_s`. Raises FanstoreError when this node's daemon does not answer."""
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
    rows: list[dict[str, Any]] = json.loads(body)["ranks"]
    return rows


def describe_ranks(job: FoundJob) -> list[dict[str, Any]]:
    """Returns what `status` shows of every rank; those that do not answer are named by `state`."""
    return ask_ranks(job, "status", _RANKS_PATIENCE_S)


def describe_job(job: FoundJob) -> dict[str, Any]:
    """Returns what `status` shows: from the daemon, or from what a dead one left."""
    if job.alive:
        try:
            return ask(job, "status")
        except FanstoreError as error:
            return {**_left_behind(job), "state": "not answering", "reason": str(error)}
    left = left_behind(job.directory)
    waiting = {} if left is None else dict(zip(_LEFT, left, strict=True))
    return {**_left_behind(job), "state": "dead", "outputs": waiting}


def _left_behind(job: FoundJob) -> dict[str, Any]:
    about: dict[str, Any] = {"job_id": job.job_id, "job_directory": job.directory, "datasets": []}
    try:
        with open(os.path.join(job.directory, "job.json"), encoding="utf-8") as stream:
            about.update(json.load(stream))
    except (OSError, ValueError):
        pass
    return about


def stop_job(
    job: FoundJob, flush: bool, hear: Callable[[dict[str, Any]], None]
) -> dict[str, Any] | None:
    """Stops a daemon that stands by itself and waits until it is gone, as long as it says that
    outputs are on their way. `hear` is called with what it says. Returns its summary; None when it
    was killed."""
    daemon = Process(int(ask(job, "status")["daemon_pid"]))
    summary = None
    with contextlib.closing(_connect(job)) as channel:
        _request(job, channel, {"op": "stop", "flush": flush})
        channel.socket.settimeout(_STOP_WAIT_S)
        for message in _messages(job, channel):
            hear(message)
            if message.get("type") == "summary":
                summary = message
                break
    if not daemon.wait(_STOP_WAIT_S):
        raise FanstoreError(f"job {job.job_id}: has not ended within a minute")
    return summary


def _messages(job: FoundJob, channel: Channel) -> Iterator[dict[str, Any]]:
    try:
        while (messages := channel.read()) is not None:
            yield from messages
    except TimeoutError:
        raise FanstoreError(f"job {job.job_id}: has not ended within a minute") from None
