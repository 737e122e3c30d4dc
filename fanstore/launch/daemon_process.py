"""Forks the node daemon from the process that starts the job."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Collection
from dataclasses import dataclass

from fanstore.errors import FanstoreError
from fanstore.job.plan import JobPlan
from fanstore.launcher import process_manager_fd
from fanstore.messages.channel import Channel
from fanstore.messages.job import Failure
from fanstore.node.process import die_with_parent, set_name
from fanstore.staging.memory import KillWatch, hint_for


class DaemonFailed(FanstoreError):
    """The daemon could not start. Has the daemon's message and exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass
class DaemonProcess:
    """The daemon process, for the process that forked it."""

    pid: int
    channel: Channel
    memory: KillWatch

    def unspoken_end(self, status: int, in_memory: bool) -> str:
        """Returns a message about a daemon that ended during its start and reported no error.
        status: its wait status. in_memory: the local directory is a tmpfs."""
        # The alarm in World, while MPI starts.
        if os.waitstatus_to_exitcode(status) == signal.SIGALRM:
            return "MPI did not bring all ranks together in time: one is missing, or very late"
        reason = self.memory.reason()
        hint = f"; {hint_for(in_memory)}" if reason else ""
        return f"the node daemon died while it staged{reason}{hint}; nothing was left behind"


def start_daemon(plan: JobPlan) -> DaemonProcess:
    """Forks a daemon, in a session of its own. A daemon of kind "run" gets SIGTERM when its parent
    dies."""
    ours, theirs = socket.socketpair()
    memory = KillWatch()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _child(parent, plan, theirs)
    theirs.close()
    return DaemonProcess(pid, Channel(ours), memory)


def _close_others(keep: Collection[int | None]) -> None:
    """Closes all inherited descriptors except 0, 1, 2 and `keep`."""
    for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
        if fd > 2 and fd not in keep:
            with contextlib.suppress(OSError):
                os.close(fd)


def _child(parent: int, plan: JobPlan, channel: socket.socket) -> None:
    code = 125
    try:
        os.setsid()
        os.umask(0o077)
        set_name("fanstore-daemon")
        _close_others((channel.fileno(), process_manager_fd(os.environ)))
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)

        from fanstore.job.daemon import Daemon

        daemon = Daemon(plan, Channel(channel))
        daemon.catch_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        if plan.kind == "run":
            die_with_parent(parent, signal.SIGTERM)
        code = daemon.run()
    except BaseException as error:
        message = f"node daemon: {type(error).__name__}: {error}"
        Channel(channel).try_send(Failure(message=message, exit_code=code))
    finally:
        with contextlib.suppress(OSError):
            # Closes it for all: a hanging thread would keep it open.
            channel.shutdown(socket.SHUT_RDWR)
        _exit(code)


def _exit(code: int) -> None:
    """Ends this process without the exit handlers of its parent; after it has finalised MPI, with
    the exit handlers of C.

    MPICH signs off from its process manager only in such an exit handler: without it, Hydra takes
    the rank's end for a crash, and ends the others."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_finalized():
        ctypes.CDLL(None).exit(code)
    os._exit(code)
