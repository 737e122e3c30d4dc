"""Communication between the ranks of a job, in the main thread of each node daemon, until serving
starts.

Python owns MPI until then; after that the transport's thread, and Python again once that thread has
been joined. Every wait here has a limit: twice a second, waiting ranks send each other their
progress, which shows that they are alive (fanstore.beats). If a rank is silent for `patience_s`, or
reports that it failed, the waits of all others end with FanstoreError. If MPI itself waits too long
in its start or its end, the kernel's alarm ends the process (`_bounded`).
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import itertools
import os
import pickle
import select
import signal
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fanstore._native import share_names
from fanstore.beats import Beats
from fanstore.errors import FanstoreError
from fanstore.launcher import NO_MPI4PY, detect, process_manager_fd

_PAUSE_MIN_S, _PAUSE_MAX_S = 0.0002, 0.01
_FAREWELL_S = 5.0
_START_PATIENCES = 5  # more patience at the start, which may be from a slow file system
_SHM = "/dev/shm"
OPEN_MPI = "Open MPI"

Buffer = bytes | bytearray | memoryview


class RankLost(FanstoreError):
    """Another rank died or failed. told: that rank has reported it, so that no other rank need do
    so."""

    def __init__(self, message: str, told: bool) -> None:
        super().__init__(message)
        self.told = told


class World:
    """The ranks of a job that has one rank. Also the base class for jobs with several ranks."""

    rank = 0
    world_size = 1
    comm: Any = None
    show: Callable[[int, int], None] = staticmethod(lambda done_bytes, total_bytes: None)

    def gather_all(self, value: Any) -> list[Any]:
        """Returns the values that all ranks passed, in the order of the ranks."""
        return [value]

    def gather(self, value: Any) -> list[Any] | None:
        """Returns the values that all ranks passed, in the order of the ranks, on rank 0; None on
        other ranks."""
        return [value]

    def broadcast(self, value: Any) -> Any:
        """Returns the value that rank 0 passed."""
        return value

    def report(self, done_bytes: int, total_bytes: int) -> None:
        """Sends this rank's progress to the others, which also shows that it is alive. On rank 0,
        calls `show` with the sums (done, total) over all ranks."""
        self.show(done_bytes, total_bytes)

    def fail(self, message: str) -> None:
        """Tells all ranks that this one failed."""

    def hurry(self) -> None:
        """Limits all further waits for other ranks to a few seconds, because the job is about to
        end."""

    def finish(self, whole: bool = True) -> bool:
        """Leaves the job; if `whole`, together with all other ranks. Returns False if MPI could not
        be finalised: the process must then end by os._exit, and MPI may write to its memory until
        then."""
        return True


class MpiWorld(World):
    """The ranks that a launcher started together. They use an MPI communicator of their own."""

    def __init__(self, expected_size: int, patience_s: float, check: Callable[[], None]) -> None:
        """Joins the other ranks. Calls `check` in every wait, which may raise. Raises FanstoreError
        if mpi4py or MPI is missing, or if MPI has another number of ranks than `expected_size`."""
        start_s = _START_PATIENCES * patience_s
        mpi = _initialise(start_s, check)
        self._mpi = mpi
        # Heartbeats and the end of the job have communicators of their own, because a rank that
        # gives up does not take part in the collective operations for which others wait.
        try:
            with _bounded(start_s, check):
                self.comm, beats, self._farewell = (mpi.COMM_WORLD.Dup() for _ in range(3))
                self._farewell.Barrier()
        finally:
            # Open MPI's launcher removes the files itself, and complains if they are gone.
            if vendor_of(mpi) != OPEN_MPI:
                _remove_shared_memory()
        for comm in (self.comm, beats, self._farewell):
            comm.Set_errhandler(mpi.ERRORS_RETURN)
        self.rank, self.world_size = self.comm.rank, self.comm.size
        if self.world_size != expected_size:
            raise FanstoreError(
                f"the launcher started {expected_size} ranks, but MPI sees {self.world_size}: it "
                "was started by another MPI's launcher (srun --mpi=pmi2, or the mpiexec that "
                "belongs to mpi4py's MPI)"
            )
        self._check = check
        self._beats = Beats(beats, mpi.ANY_SOURCE, mpi.Status, patience_s)

    def gather_all(self, value: Any) -> list[Any]:
        data = pickle.dumps(value)
        sizes = array.array("q", [0] * self.world_size)
        self.wait(self.comm.Iallgather(array.array("q", [len(data)]), sizes))
        joined = bytearray(sum(sizes))
        self.wait(self.comm.Iallgatherv(data, self._parts(joined, sizes)))
        return _unpickled(joined, sizes)

    def gather(self, value: Any) -> list[Any] | None:
        data = pickle.dumps(value)
        is_root = self.rank == 0
        sizes = array.array("q", [0] * self.world_size if is_root else [])
        self.wait(self.comm.Igather(array.array("q", [len(data)]), sizes if is_root else None, 0))
        joined = bytearray(sum(sizes))
        self.wait(self.comm.Igatherv(data, self._parts(joined, sizes) if is_root else None, 0))
        return _unpickled(joined, sizes) if is_root else None

    def broadcast(self, value: Any) -> Any:
        data = pickle.dumps(value) if self.rank == 0 else b""
        size = array.array("q", [len(data)])
        self.wait(self.comm.Ibcast(size, 0))
        passed = bytearray(data if self.rank == 0 else size[0])
        self.wait(self.ibcast(passed, 0))
        return pickle.loads(passed)

    def _parts(self, joined: bytearray, sizes: Sequence[int]) -> Any:
        """Returns the form in which mpi4py takes a buffer with parts of different sizes."""
        starts = [0, *itertools.accumulate(sizes[:-1])]
        return [joined, (list(sizes), starts), self._mpi.BYTE]

    def isend(self, buffer: Buffer, rank: int, tag: int) -> Any:
        """Starts to send; call `wait` with the result before you change `buffer`."""
        return self.comm.Isend([buffer, self._mpi.BYTE], rank, tag)

    def irecv(self, buffer: Buffer, rank: int, tag: int) -> Any:
        """Starts to receive into `buffer`, which has exactly the size of the message."""
        return self.comm.Irecv([buffer, self._mpi.BYTE], rank, tag)

    def ibcast(self, buffer: Buffer, root: int) -> Any:
        """Starts to broadcast `buffer` from rank `root` to all ranks."""
        return self.comm.Ibcast([buffer, self._mpi.BYTE], root)

    def wait(self, request: Any) -> None:
        """Waits for an operation. Raises RankLost if a rank is gone, and the errors of `check`."""
        pause_s = _PAUSE_MIN_S
        while not request.Test():
            self._check()
            self._beat()
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _PAUSE_MAX_S)

    def wait_all(self, requests: Sequence[Any]) -> None:
        """Waits for several operations. Raises as `wait` does."""
        for request in requests:
            self.wait(request)

    def report(self, done_bytes: int, total_bytes: int) -> None:
        self._beats.report((done_bytes, total_bytes))
        self._beat()
        if self.rank == 0:
            self.show(*self._beats.report((done_bytes, total_bytes)))

    def fail(self, message: str) -> None:
        with contextlib.suppress(self._mpi.Exception):
            self._beats.fail((self.rank, message, True))

    def hurry(self) -> None:
        self._beats.patience_s = min(self._beats.patience_s, _FAREWELL_S)

    def finish(self, whole: bool = True) -> bool:
        with contextlib.suppress(self._mpi.Exception):
            if self._meets_others(whole) and self._beats.failure is None:
                with _bounded(_FAREWELL_S, lambda: None):
                    self._mpi.Finalize()
        if self._mpi.Is_finalized():
            return True
        _remove_shared_memory()
        _take_leave()
        return False

    def _meets_others(self, whole: bool) -> bool:
        """Waits a few seconds for all ranks to call this, while each cleans up; returns whether
        they do. Ranks that received a failure call it too, so that the failure reaches all before
        the first rank ends."""
        failure = self._beats.failure
        is_silent = failure is not None and not failure[2]
        if is_silent or not whole:
            return False
        deadline_s = time.monotonic() + _FAREWELL_S
        met = self._farewell.Ibarrier()
        while not met.Test():
            if time.monotonic() > deadline_s:
                return False
            self._beats.hear()
            time.sleep(_PAUSE_MIN_S)
        self._beats.hear()
        return True

    def _beat(self) -> None:
        """Receives and sends heartbeats. Raises RankLost if another rank failed, or if the others
        count this rank as lost because it was silent: they have ended, or will soon."""
        self._beats.beat()
        failure = self._beats.failure
        if failure is None:
            return
        rank, message, told = failure
        if rank != self.rank or not told:
            raise RankLost(f"rank {rank}: {message}", told)


def _unpickled(joined: bytearray, sizes: Sequence[int]) -> list[Any]:
    values, start = [], 0
    for size in sizes:
        values.append(pickle.loads(memoryview(joined)[start : start + size]))
        start += size
    return values


@contextlib.contextmanager
def _bounded(limit_s: float, check: Callable[[], None]) -> Iterator[None]:
    """Within the block, ends this process by _exit if MPI does not return in time, or at SIGTERM or
    SIGINT: MPI waits in C and holds the interpreter, even for ranks that are gone. The exit code
    names the signal. Use it while the process has nothing to clean up. `check` raises if the
    process was asked to end before."""
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
    """Tells Hydra, in place of MPI, that this rank ends normally: otherwise Hydra kills or signals
    the others. The message is of PMI 1; a manager with another protocol ignores it."""
    fd = process_manager_fd(os.environ)
    if fd is None or not detect(os.environ).is_hydra:
        return
    with contextlib.suppress(OSError):
        os.write(fd, b"cmd=finalize\n")
        select.select([fd], [], [], 1.0)  # the answer shows that Hydra has read the message


def _remove_shared_memory() -> None:
    """Removes the names of MPI's shared memory in /dev/shm once every rank of this node has mapped
    it, so that a killed rank leaves nothing behind."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as stream:
        mapped = {line.split(maxsplit=5)[5].rstrip("\n") for line in stream if _SHM in line}
    for path in mapped:
        if os.path.dirname(path) == _SHM:
            with contextlib.suppress(OSError):
                os.unlink(path)


def outlive_neighbours() -> None:
    """Stops UCX from reading the memory of other processes of this node (cma), unless the user set
    UCX_TLS, because UCX aborts if such a process was killed. Call it before MPI is loaded."""
    os.environ.setdefault("UCX_TLS", "^cma")


def vendor_of(mpi: Any) -> str:
    """Returns the name of the MPI implementation, such as "MPICH"."""
    return str(mpi.get_vendor()[0])


def check_launcher(environ: Mapping[str, str], mpi: Any) -> None:
    """Raises FanstoreError if the launcher of another MPI started this rank: with it, MPI would end
    the process or see a single rank."""
    launcher = ""
    if detect(environ).is_hydra:
        launcher = "MPICH"
    elif "PMI_RANK" not in environ and "OMPI_COMM_WORLD_RANK" in environ:
        launcher = OPEN_MPI
    vendor = vendor_of(mpi)
    if launcher == "" or (launcher == OPEN_MPI) == (vendor == OPEN_MPI):
        return
    own = os.path.join(sysconfig.get_path("scripts"), "mpiexec")
    which = own if os.access(own, os.X_OK) else f"the mpiexec of {vendor}"
    raise FanstoreError(
        f"the launcher of {launcher} started this rank, but mpi4py runs on {vendor}: start the job "
        f"with {which}, or install {launcher} for mpi4py in place of {vendor}"
    )


def _initialise(limit_s: float, check: Callable[[], None]) -> Any:
    """Imports mpi4py's MPI module, initialises MPI and returns the module. Turns off automatic
    finalising, which must not happen if a rank was lost."""
    try:
        import mpi4py
    except ImportError:
        raise FanstoreError(NO_MPI4PY) from None
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
    check_launcher(os.environ, MPI)
    if not MPI.Is_initialized():
        with _bounded(limit_s, check):
            MPI.Init_thread(MPI.THREAD_SERIALIZED)
    return MPI
