"""A job's side of a coordination: joins it and reads the batches that all its jobs prepare."""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import socket
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from fanstore.coordinate.messages import (
    BY_KIND,
    COORDINATE_SOCKET,
    Abandon,
    Batch,
    Begin,
    Begun,
    CoordinationError,
    CoordinationLost,
    CoordinationRequest,
    Heard,
    Join,
    Joined,
    Next,
    Refused,
    Used,
)
from fanstore.coordinate.messages import PreparationFailed as _Failed
from fanstore.coordinate.worker import Array, Prepare, fetch, work
from fanstore.messages.channel import Channel, open_stream
from fanstore.messages.message import Message, MessageError, decode, from_line

A = TypeVar("A", bound=Message)

_GRACE_S = 30.0  # longer than the daemon's own deadline, so that the daemon reports it first


def join(
    prepare: Prepare,
    *,
    jobs: int,
    batches: int,
    batch_bytes: int,
    fingerprint: Mapping[str, object] | None = None,
    name: str = "default",
    window: int = 8,
    workers: int = 1,
    deadline_s: float = 60.0,
    wait_s: float = 600.0,
) -> Coordination:
    """Joins the jobs of this node that share batches under `name`, from the next epoch on.

    prepare(epoch, batch): returns a sequence of arrays or bytes; called in worker processes that
    are forked here. jobs: the first epoch waits for this many jobs, and no more may take part.
    batches: their number in an epoch. batch_bytes: the largest size of a batch. fingerprint: values
    that must be equal in all jobs, such as the seed. window: batches that are staged at a time.
    workers: processes that prepare. deadline_s: seconds after which other jobs take over a batch
    that this job is late with. wait_s: the longest wait, in seconds. Raises CoordinationRefused,
    and CoordinationLost outside of a job.
    """
    directory = os.environ.get("FANSTORE_JOB_DIR", "")
    if not directory:
        raise CoordinationLost("coordinated jobs run under `fanstore exec` or `fanstore run`")
    wanted = Join(
        name=str(name), jobs=jobs, batches=batches, batch_bytes=batch_bytes, window=window,
        workers=workers, deadline_s=float(deadline_s), wait_s=float(wait_s),
        fingerprint={str(key): str(value) for key, value in (fingerprint or {}).items()},
    )  # fmt: skip
    return Coordination(directory, wanted, prepare)


def _end(pid: int, workers: list[Any]) -> None:
    """Kills the workers of process `pid`; does nothing in a child that it forked."""
    for worker in workers if os.getpid() == pid else ():
        worker.kill()  # a stopped process ignores SIGTERM; no worker has anything to clean up
        worker.join(5.0)


class Coordination:
    """The membership that `join` returns: a context manager that leaves the coordination at its
    end. Use it in one thread of one process. directory: the job's directory. wanted: the arguments
    of `join`. prepare: as in `join`."""

    def __init__(self, directory: str, wanted: Join, prepare: Prepare) -> None:
        self._pid = os.getpid()
        self._workers: list[Any] = []
        self._reports, reports = multiprocessing.Pipe(duplex=False)
        try:
            stream = open_stream(directory, COORDINATE_SOCKET, wanted.wait_s + _GRACE_S)
        except OSError as error:
            raise CoordinationLost(f"the node daemon does not answer: {error}") from None
        self._channel: Channel | None = Channel(stream)
        answer, fd = self._exchange(wanted, Joined)
        assert fd is not None
        self._area = mmap.mmap(fd, answer.bytes)
        os.close(fd)
        self._slot_bytes = answer.slot_bytes
        context = multiprocessing.get_context("fork")
        rest = (self._area, self._slot_bytes, prepare, reports)
        # Also runs at the exit of a program that did not call close: multiprocessing would
        # otherwise wait there for a stopped worker.
        self._end_workers = weakref.finalize(self, _end, self._pid, self._workers)
        for _ in range(wanted.workers):
            arguments = (directory, wanted.name, answer.member, *rest)
            self._workers.append(context.Process(target=work, args=arguments, daemon=True))
            self._workers[-1].start()
        reports.close()

    def epoch(self) -> Iterator[tuple[int, int, list[Array]]]:
        """Yields (epoch, batch, arrays) for each batch of the next epoch, in order; the arrays are
        copies. The epoch begins when all jobs have asked for it. Raises PreparationFailed,
        CoordinationTimeout or CoordinationLost."""
        epoch = self._ask(Begin(), Begun).epoch
        is_done = False
        try:
            while (found := self._ask(Next(), Batch)).slot >= 0:
                arrays = fetch(self._area, found.slot * self._slot_bytes, found.layout)
                self._ask(Used(), Heard)
                yield epoch, found.batch, arrays
            is_done = True
        finally:
            if not is_done and self._channel is not None:
                with contextlib.suppress(CoordinationLost):
                    self._ask(Abandon(), Heard)

    def close(self) -> None:
        """Leaves the coordination; the other jobs continue without this one."""
        if os.getpid() != self._pid:
            return
        self._drop()
        self._end_workers()

    def __enter__(self) -> Coordination:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, request: CoordinationRequest, answer: type[A]) -> A:
        return self._exchange(request, answer)[0]

    def _exchange(self, request: CoordinationRequest, answer: type[A]) -> tuple[A, int | None]:
        if os.getpid() != self._pid:
            raise CoordinationLost("a forked child is no member: join in the process that trains")
        if self._channel is None:
            raise CoordinationLost("this job has left the coordination")
        try:
            self._channel.send(request)
            line, fd = self._channel.receive_line_with_fd()
        except (
            BaseException
        ) as error:  # also Ctrl-C: the answer to this request would be read as the next one's
            self._drop()
            if isinstance(error, OSError):
                raise CoordinationLost(f"the node daemon does not answer: {error}") from None
            raise
        if line is None:
            self._drop()
            raise CoordinationLost("the node daemon ended, or dropped this job")
        try:
            plain = from_line(line)
            refused = decode(Refused, plain) if "error" in plain else None
            found = None if refused is not None else decode(answer, plain)
        except MessageError as error:
            self._drop()
            raise CoordinationLost(f"the node daemon answers with {error}") from None
        if refused is not None:
            raise self._failure(refused)
        assert found is not None
        return found, fd

    def _drop(self) -> None:
        if self._channel is not None:
            with contextlib.suppress(OSError):  # the workers hold copies of the descriptor
                self._channel.socket.shutdown(socket.SHUT_RDWR)
            self._channel.close()
            self._channel = None

    def _failure(self, refused: Refused) -> CoordinationError:
        if refused.error == "failed" and self._reports.poll():
            return _Failed(f"the preparation of a batch raised in this job\n{self._reports.recv()}")
        return BY_KIND.get(refused.error, CoordinationError)(refused.message)
