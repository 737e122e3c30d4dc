"""The ranks of a job, from the main thread of one node daemon until serving starts.

Python owns MPI up to then; the transport's thread does afterwards, and Python again once that has
been joined. Nothing here waits without bound: while it waits, each rank tells rank 0 twice a
second that it lives and how far it is, and rank 0 tells all. A rank that is silent for
`patience_s`, or says that it failed, ends the wait of all others with FanstoreError. Where MPI
itself waits, in its start and its end, the kernel's alarm ends the process (`_bounded`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fanstore._native import share_names
from fanstore.errors import FanstoreError
from fanstore.launcher import detect, process_manager_fd

_BEAT_TAG = 1
_BEAT_S = 0.5
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.0002, 0.01
_FAREWELL_S = 5.0
_START_PATIENCES = 5  # ranks are started one after the other, from a slow file system at times
_SHM = "/dev/shm"

Buffer = bytes | bytearray | memoryview


class RankLost(FanstoreError):
    """Another rank died, or failed. told: it has said so itself, so that nobody else need."""

    def __init__(self, message: str, told: bool) -> None:
        super().__init__(message)
        self.told = told


class World:
    """A job of one rank; the base class for jobs of several."""

    rank = 0
    world_size = 1
    comm: Any = None
    show: Callable[[int, int], None] = staticmethod(lambda done_bytes, total_bytes: None)

    def gather_all(self, value: Any) -> list[Any]:
        """Returns the values that all ranks gave, by rank."""
        return [value]

    def report(self, done_bytes: int, total_bytes: int) -> None:
        """Tells the others how far this rank has come, and that it lives. On rank 0, `show` gets
        the (done, total) bytes of all."""
        self.show(done_bytes, total_bytes)

    def fail(self, message: str) -> None:
        """Tells all ranks that this one gives up."""

    def hurry(self) -> None:
        """Has nobody be waited for longer than a few seconds from now on: all are about to end."""

    def finish(self, whole: bool = True) -> bool:
        """Leaves the job; with all others, if they are there (`whole`). Returns False when MPI
        could not be finalised: the process must end by os._exit, and MPI may write to memory until
        then."""
        return True


class MpiWorld(World):
    """The ranks that a launcher started together, over an MPI communicator of their own."""

    def __init__(self, expected_size: int, patience_s: float, check: Callable[[], None]) -> None:
        """Joins the others. `check` is called in every wait and may raise to give up. Raises
        FanstoreError when mpi4py or MPI is missing, or sees another number of ranks than
        `expected_size`."""
        start_s = _START_PATIENCES * patience_s
        mpi = _initialise(start_s, check)
        self._mpi = mpi
        # Heartbeats and the farewell have communicators of their own: a rank that gives up leaves
        # the collectives in which others wait.
        try:
            with _bounded(start_s, check):
                self.comm, self._beats, self._farewell = (mpi.COMM_WORLD.Dup() for _ in range(3))
                self._farewell.Barrier()
        finally:
            _remove_shared_memory()
        for comm in (self.comm, self._beats, self._farewell):
            comm.Set_errhandler(mpi.ERRORS_RETURN)
        self.rank, self.world_size = self.comm.rank, self.comm.size
        if self.world_size != expected_size:
            raise FanstoreError(
                f"the launcher started {expected_size} ranks, but MPI sees {self.world_size}: it "
                "was started by another MPI's launcher (srun --mpi=pmi2, or the mpiexec that "
                "belongs to mpi4py's MPI)"
            )
        self._check, self._patience_s = check, patience_s
        now_s = time.monotonic()
        self._heard_s = [now_s] * self.world_size
        self._figures = [(0, 0)] * self.world_size
        self._own = (0, 0)
        self._last_beat_s = 0.0
        self._sending: list[Any] = []
        self._failure: tuple[int, str, bool] | None = None  # rank, message, whether it tells

    def gather_all(self, value: Any) -> list[Any]:
        import array

        data = pickle.dumps(value)
        sizes = array.array("q", [0] * self.world_size)
        self.wait(self.comm.Iallgather(array.array("q", [len(data)]), sizes))
        starts = [sum(sizes[:rank]) for rank in range(self.world_size)]
        joined = bytearray(sum(sizes))
        self.wait(self.comm.Iallgatherv(data, [joined, (list(sizes), starts), self._mpi.BYTE]))
        return [
            pickle.loads(joined[start : start + size])
            for start, size in zip(starts, sizes, strict=True)
        ]

    def isend(self, buffer: Buffer, rank: int, tag: int) -> Any:
        """Begins to send; `wait` for the result before `buffer` changes."""
        return self.comm.Isend([buffer, self._mpi.BYTE], rank, tag)

    def irecv(self, buffer: Buffer, rank: int, tag: int) -> Any:
        """Begins to receive exactly what the other side sends into `buffer`."""
        return self.comm.Irecv([buffer, self._mpi.BYTE], rank, tag)

    def ibcast(self, buffer: Buffer, root: int) -> Any:
        """Begins to pass `buffer` from `root` to all."""
        return self.comm.Ibcast([buffer, self._mpi.BYTE], root)

    def wait(self, request: Any) -> None:
        """Waits for an operation. Raises RankLost when a rank is gone, and what `check` raises."""
        pause_s = _PAUSE_MIN_S
        while not request.Test():
            self._check()
            self._beat()
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _PAUSE_MAX_S)

    def wait_all(self, requests: Sequence[Any]) -> None:
        """Waits for several operations, as `wait` does for one."""
        for request in requests:
            self.wait(request)

    def report(self, done_bytes: int, total_bytes: int) -> None:
        self._own = (done_bytes, total_bytes)
        self._figures[self.rank] = self._own
        self._beat()
        if self.rank == 0:
            done, total = (sum(column) for column in zip(*self._figures, strict=True))
            self.show(done, total)

    def fail(self, message: str) -> None:
        if self._failure is None:
            self._failure = (self.rank, message, True)
            with contextlib.suppress(self._mpi.Exception):
                self._send_beats()

    def hurry(self) -> None:
        self._patience_s = min(self._patience_s, _FAREWELL_S)

    def finish(self, whole: bool = True) -> bool:
        with contextlib.suppress(self._mpi.Exception):
            if self._meets_others(whole) and self._failure is None:
                with _bounded(_FAREWELL_S, lambda: None):
                    self._mpi.Finalize()
        if self._mpi.Is_finalized():
            return True
        _remove_shared_memory()
        _take_leave()
        return False

    def _meets_others(self, whole: bool) -> bool:
        """Tells whether all ranks come here within a few seconds, while each tidies up. Those that
        were told of a failure meet, too, so that it reaches all before the first is gone."""
        is_silent = self._failure is not None and not self._failure[2]
        if is_silent or not whole:
            return False
        deadline_s = time.monotonic() + _FAREWELL_S
        met = self._farewell.Ibarrier()
        while not met.Test():
            if time.monotonic() > deadline_s:
                return False
            self._drain()
            time.sleep(_PAUSE_MIN_S)
        self._drain()
        return True

    def _beat(self) -> None:
        """Hears the others, and twice a second says that this rank lives."""
        self._drain()
        now_s = time.monotonic()
        if now_s - self._last_beat_s >= _BEAT_S:
            if now_s - self._last_beat_s > _BEAT_S + self._patience_s / 2:
                # This rank itself stood still: it cannot tell who was silent meanwhile.
                self._heard_s = [now_s] * self.world_size
            self._last_beat_s = now_s
            self._send_beats()
        self._raise_failure()
        self._look_for_the_silent(now_s)

    def _send_beats(self) -> None:
        others = range(1, self.world_size) if self.rank == 0 else (0,)
        self._sending = [request for request in self._sending if not request.Test()]
        message = (self._own, self._failure)
        self._sending += [self._beats.isend(message, rank, _BEAT_TAG) for rank in others]

    def _drain(self) -> None:
        status = self._mpi.Status()
        while self._beats.iprobe(self._mpi.ANY_SOURCE, _BEAT_TAG, status):
            source = status.Get_source()
            figures, failure = self._beats.recv(source=source, tag=_BEAT_TAG)
            self._heard_s[source] = time.monotonic()
            self._figures[source] = figures
            if failure is not None and self._failure is None:
                self._failure = failure
                self._send_beats()

    def _look_for_the_silent(self, now_s: float) -> None:
        """Raises RankLost for a rank that has been silent for too long; rank 0 watches all, the
        others watch rank 0."""
        watched = range(1, self.world_size) if self.rank == 0 else (0,)
        for rank in watched:
            if now_s - self._heard_s[rank] > self._patience_s:
                self._failure = (rank, f"not heard of for {self._patience_s:g} s", False)
                self._send_beats()
                self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None and self._failure[0] != self.rank:
            rank, message, told = self._failure
            raise RankLost(f"rank {rank}: {message}", told)


@contextlib.contextmanager
def _bounded(limit_s: float, check: Callable[[], None]) -> Iterator[None]:
    """Ends this process, by _exit with the number of the signal, when MPI does not return in time,
    or when it is told to end meanwhile: MPI waits in C and holds the interpreter, whoever is gone.
    Nothing that would have to be removed may be there yet, or any more. `check` raises when it was
    told to end before."""
    libc = ctypes.CDLL(None)
    ending = (signal.SIGALRM, signal.SIGTERM, signal.SIGINT)
    handlers = [signal.getsignal(number) for number in ending]
    for number in ending:
        libc.signal(number, libc._exit)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        check()
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in zip(ending, handlers, strict=True):
            signal.signal(number, handler)


def _take_leave() -> None:
    """Tells Hydra in MPI's stead that this rank ends as it should: it kills or signals the others
    otherwise. The line is of PMI 1; who speaks another protocol does not act on it."""
    fd = process_manager_fd(os.environ)
    if fd is None or not detect(os.environ).is_hydra:
        return
    with contextlib.suppress(OSError):
        os.write(fd, b"cmd=finalize\n")
        select.select([fd], [], [], 1.0)  # an answer says that the line has been heard


def _remove_shared_memory() -> None:
    """Removes the names of what MPI shares in /dev/shm: every rank of this node has it mapped, and
    a rank that is killed leaves nothing."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as stream:
        mapped = {line.split(maxsplit=5)[5].rstrip("\n") for line in stream if _SHM in line}
    for path in mapped:
        if os.path.dirname(path) == _SHM:
            with contextlib.suppress(OSError):
                os.unlink(path)


def outlive_neighbours() -> None:
    """Has UCX not read from the memory of other processes of this node, unless the user chose its
    carriers: it aborts when one of them has been killed meanwhile. Before MPI is loaded."""
    os.environ.setdefault("UCX_TLS", "^cma")


def _initialise(limit_s: float, check: Callable[[], None]) -> Any:
    """Returns mpi4py's MPI module, initialised by hand: it must not finalise when a rank was
    lost."""
    try:
        import mpi4py
    except ImportError:
        raise FanstoreError(
            "several ranks need MPI, and mpi4py is not installed: pip install 'fanstore-fs[mpi]'"
        ) from None
    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    outlive_neighbours()
    share_names()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise FanstoreError(
            f"mpi4py finds no MPI library ({error}): load the site's MPI, or pip install mpich"
        ) from None
    if not MPI.Is_initialized():
        with _bounded(limit_s, check):
            MPI.Init_thread(MPI.THREAD_SERIALIZED)
    return MPI
