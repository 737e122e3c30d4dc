"""The wrapper: starts a node daemon and a command, and leaves nothing behind when the command has
ended.

If a launcher started several wrappers, each is one rank of a job: its daemon meets the others
before the command starts, and goes on serving them until their commands have ended too.

The command stays in the wrapper's process group, so the terminal's signals reach both, as do those
that Slurm sends to a step: the wrapper does not pass these on a second time. It passes on other
signals. MPICH's mpiexec has no terminal to give and signals the process group for its own reasons;
under it, the command has its own group and gets only the signals that the wrapper passes on. If the
daemon dies, the command goes on with the files on the local disk, and the wrapper removes the
leftovers itself.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TypeVar

from fanstore.errors import FanstoreError
from fanstore.exit_codes import SIGNALLED
from fanstore.job.plan import JobPlan
from fanstore.launch import report
from fanstore.launch.command import start_command
from fanstore.launch.containers import Container
from fanstore.launch.daemon_process import DaemonFailed, start_daemon
from fanstore.launch.flush_report import FlushReport
from fanstore.launch.mpi_hint import mpi_hint
from fanstore.launch.placeholder import with_prefix
from fanstore.launch.probe import prepared
from fanstore.launch.signals import ENDING, FORWARDED, ReceivedSignal, SignalQueue
from fanstore.launcher import is_launched, process_manager_fd, without_mpi
from fanstore.messages.job import (
    TOLD_BY_DAEMON,
    Command,
    End,
    Failure,
    Flushing,
    GiveUp,
    JobSummary,
    Ready,
    Stall,
    Waiting,
)
from fanstore.messages.message import NamedMessage, replace
from fanstore.node.job_directory import clean_up_directory, rescue_job
from fanstore.outputs.tree.dead_job import left_behind, rescue_lines
from fanstore.programs.check import entry_hint
from fanstore.staging import locks
from fanstore.wording import show_bytes

_DAEMON_END_WAIT_S = 60.0
_GIVE_UP_WAIT_S = 8.0  # how long a daemon may take to end after it was told to give up
_KILLED_WAIT_S = 3.0
_REAP_POLL_S = 0.005

T = TypeVar("T", bound=NamedMessage)


class Wrapper:
    """One run of a command under its own node daemon."""

    def __init__(self, plan: JobPlan, container: Container | None) -> None:
        self._plan = plan
        self._container = container
        self._launcher = plan.launcher
        _keep_from_command(process_manager_fd(os.environ))
        self._signals = SignalQueue({*FORWARDED, signal.SIGCHLD})
        self._daemon = start_daemon(plan)
        self._daemon_status: int | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ)
        self._selector.register(self._daemon.channel, selectors.EVENT_READ)
        self._messages: list[NamedMessage] = []
        self._channel_open = True
        self._holds: list[int] = []
        self._pid = 0
        self._stop_asked = False
        self._command_stopped = False
        self._interrupts = 0
        self._job_directory = ""
        self._entered = 0  # programs that loaded the library before the command started
        self._ran = False
        self._flush = FlushReport(plan.settings.quiet)
        self._end_signals = 0
        self._gave_up = False

    def run(self, command: Sequence[str]) -> int:
        """Runs the command to its end. Returns the command's exit code, 128 + signal, or an exit
        code of FanStore."""
        ready = self._await_ready()
        if isinstance(ready, int):
            return ready
        for warning in [*ready.warnings, *report.damage_lines(ready)]:
            report.say(warning)
        if self._launcher.rank == 0:
            report.tell_missing_plots(self._plan.report_page)
        try:
            self._job_directory = ready.job_directory
            self._hold(ready.locks)
            code = self._run_command(command, ready)
        finally:
            summary = self._end()
        if summary is None:
            died = f"the node daemon died{self._daemon.memory.reason()}"
            report.say(f"{died}; what it left has been removed")
            if ready.trace is not None:
                report.say(f"trace: up to then it is {ready.trace.path}")
            return code or FanstoreError.exit_code
        if self._plan.settings.trap:
            summary = replace(summary, raw_calls=())  # the trap caught these calls
        for line in report.warning_lines(summary):
            report.say(line)
        if not self._plan.settings.quiet:
            for line in report.summary_lines(summary):
                report.say(line)
            if self._ran:
                for line in report.unseen_lines(summary, self._entered):
                    report.say(line)
        for name in summary.left:
            report.say(f"left in the mount prefix, not FanStore's: {name}")
        if self._ran:
            self._make_report(summary)
        if report.went_wrong(summary):
            return code or FanstoreError.exit_code
        return code

    def _make_report(self, summary: JobSummary) -> None:
        """Makes the report that the user asked for. A signal in ENDING stops that."""
        process = report.start_report(summary)
        if process is None:
            return
        while process.poll() is None:
            if any(received.number in ENDING for received in self._events(timeout_s=1.0)):
                process.terminate()
        report.tell_report(summary.report, process.returncode, self._plan.settings.quiet)

    def _events(self, timeout_s: float | None = None) -> list[ReceivedSignal]:
        """Waits for signals or messages. Returns the signals, and queues the messages; notices the
        end of the channel."""
        received: list[ReceivedSignal] = []
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._signals:
                received += self._signals.read()
            else:
                self._hear()
        return received

    def _hear(self) -> None:
        messages = self._daemon.channel.hear(TOLD_BY_DAEMON)
        if messages is None:
            self._selector.unregister(self._daemon.channel)
            self._channel_open = False
        else:
            self._messages += messages

    def _take(self, kind: type[T]) -> T | None:
        for number, message in enumerate(self._messages):
            if isinstance(message, kind):
                del self._messages[number]
                return message
        return None

    def _await_ready(self) -> Ready | int:
        """Returns the daemon's Ready message; or the exit code if a signal ended the run before."""
        ended_by = 0
        while self._channel_open:
            for received in self._events():
                if received.number in ENDING:
                    os.kill(self._daemon.pid, signal.SIGKILL if ended_by else signal.SIGTERM)
                    ended_by = ended_by or int(received.number)
            ready = self._take(Ready)
            if ready is not None and not ended_by:
                return ready
            if ready is not None:
                self._daemon.channel.try_send(End())
        error = self._take(Failure)
        _, status = os.waitpid(self._daemon.pid, 0)
        if error is None and not self._take(JobSummary):
            self._clean_up()
        if ended_by:
            report.say(error.message if error else "told to end before the command started")
            return SIGNALLED + ended_by
        if error is None:
            raise FanstoreError(self._daemon.unspoken_end(status, self._plan.local.in_memory))
        if error.told:
            return error.exit_code
        raise DaemonFailed(error.message, error.exit_code)

    def _hold(self, paths: Sequence[str]) -> None:
        """Takes the locks that the daemon holds, so that nothing that the command uses is removed
        if the daemon dies."""
        for path in paths:
            fd = locks.take(path, exclusive=False, create=False)
            if fd is None:
                raise FanstoreError(f"{path}: removed by another job; start this one again")
            self._holds.append(fd)

    def _run_command(self, command: Sequence[str], ready: Ready) -> int:
        prefixes = [dataset.mount_prefix for dataset in ready.datasets]
        command = with_prefix(command, prefixes[0])
        command, environ, self._entered = prepared(
            command, self._environ(), ready, self._plan.settings.trap, self._container
        )
        self._pid, problem = start_command(
            command,
            environ,
            prefixes,
            self._signals.original_mask,
            self._announce_command,
        )
        if problem:
            report.say(f"error: {command[0]}: {os.strerror(problem)}")
        self._ran = not problem
        while (status := self._reap()) is None:
            self._stop_with_command()
            for received in self._events():
                self._pass_on(received)
            self._tell_stalls()
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGKILL and (reason := self._daemon.memory.reason()):
            report.say(f"the command was killed{reason}")
        return SIGNALLED - code if code < 0 else code

    def _tell_running(self) -> None:
        """Says that the command still runs, although it was interrupted before."""
        if not self._plan.settings.quiet:
            report.say(
                f"the command (process {self._pid}) still runs; each Ctrl-C goes to it, and "
                f"`kill -KILL {self._pid}` ends it"
            )

    def _tell_stalls(self) -> None:
        """Prints the daemon's lines about reads that wait for a rank, and removes these messages
        from the queue."""
        while (stall := self._take(Stall)) is not None:
            report.say(stall.line)

    def _announce_command(self, pid: int) -> None:
        """Sends the command's pid to the daemon. The child calls it just before it becomes the
        command."""
        if self._launcher.is_hydra:
            os.setpgid(0, 0)
        self._daemon.channel.try_send(Command(pid=pid))  # the daemon may have died

    def _environ(self) -> Mapping[str, str]:
        """Returns this process's environment without MPI's variables, because the command is none
        of the launcher's ranks. With --keep-mpi-env, keeps them."""
        if self._plan.settings.keep_mpi_env or not is_launched(os.environ):
            return os.environ
        return without_mpi(os.environ)

    def _reap(self) -> int | None:
        """Returns the command's wait status if it has ended, else None. Prints a line if the daemon
        has died."""
        if self._daemon_status is None:
            pid, status = os.waitpid(self._daemon.pid, os.WNOHANG)
            if pid:
                self._daemon_status = status
                died = f"the node daemon died{self._daemon.memory.reason()}"
                report.say(f"{died}; files on the local disk stay readable")
        pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        if pid and os.WIFSTOPPED(status):
            self._command_stopped = True
            return None
        return status if pid else None

    def _pass_on(self, received: ReceivedSignal) -> None:
        """Sends a signal to the command, unless the command got it directly."""
        if received.number == signal.SIGCHLD or received.is_launchers_own:
            return
        if not received.reaches_command:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, received.number)
        self._interrupts += received.number == signal.SIGINT
        if received.number == signal.SIGINT and self._interrupts == 2:
            self._tell_running()
        self._stop_asked = received.number == signal.SIGTSTP or self._stop_asked
        if received.number == signal.SIGCONT:
            self._stop_asked = self._command_stopped = False

    def _stop_with_command(self) -> None:
        """Stops this process (SIGTSTP), as the shell expects, when a signal has stopped the
        command, too."""
        if self._stop_asked and self._command_stopped:
            self._stop_asked = self._command_stopped = False
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
            os.kill(os.getpid(), signal.SIGTSTP)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTSTP})

    def _end(self) -> JobSummary | None:
        """Ends the daemon. Returns its summary; None if it had died and the wrapper cleaned up."""
        for fd in self._holds:
            os.close(fd)
        self._daemon.channel.try_send(End())
        deadline_s = time.monotonic() + _DAEMON_END_WAIT_S
        waiting = None
        while self._channel_open and (waiting or time.monotonic() < deadline_s):
            ending = [r for r in self._events(timeout_s=1.0) if r.number in ENDING]
            self._tell_stalls()
            gave_up = self._gave_up
            if self._outwait_outputs(len(ending) if waiting is None else 0):
                if not gave_up:
                    limit_s = _GIVE_UP_WAIT_S if self._gave_up else _DAEMON_END_WAIT_S
                    deadline_s = time.monotonic() + limit_s
                continue
            waiting = self._outwait_ranks(waiting, bool(ending))
            if waiting is None and ending:
                deadline_s = time.monotonic() + _DAEMON_END_WAIT_S
        self._flush.close()
        hangs = not self._reap_daemon()
        summary = self._take(JobSummary)
        if hangs:
            report.say(
                f"process {self._daemon.pid}, the node daemon, hangs in the file system of "
                f"{self._plan.output_dir}: it ends when that answers"
            )
        if summary is None:
            self._tell_error()
            self._clean_up(hangs)
        return summary

    def _tell_error(self) -> None:
        """Prints the error that ended the daemon, if it sent one."""
        error = self._take(Failure)
        if error is not None:
            report.say(error.message)

    def _reap_daemon(self) -> bool:
        """Kills a daemon that has not ended. Returns whether it is gone: a daemon that waits for a
        hanging file system cannot be killed."""
        if self._channel_open:
            os.kill(self._daemon.pid, signal.SIGKILL)
        until_s = time.monotonic() + (_KILLED_WAIT_S if self._gave_up else _DAEMON_END_WAIT_S)
        while self._daemon_status is None and time.monotonic() < until_s:
            pid, status = os.waitpid(self._daemon.pid, os.WNOHANG)
            if pid:
                self._daemon_status = status
            else:
                time.sleep(_REAP_POLL_S)
        return self._daemon_status is not None

    def _outwait_outputs(self, told_to_end: int) -> bool:
        """Shows how many outputs remain, which the daemon reports every second. The first signal
        prints that; the second gives the outputs up. Returns whether a signal or a report came."""
        heard = False
        while (message := self._take(Flushing)) is not None:
            self._flush.hear(message)
            heard = True
        if self._messages:
            self._flush.close()
            return heard
        for _ in range(told_to_end):
            self._end_signals += 1
            if self._end_signals == 1:
                report.say(
                    f"waiting for {self._flush.waited_for()}; interrupt again to stop waiting"
                )
            elif self._end_signals == 2:
                report.say("giving up; the other outputs are kept on this node")
                self._gave_up = True
                self._daemon.channel.try_send(GiveUp())
        return heard or told_to_end > 0

    def _clean_up(self, hangs: bool = False) -> None:
        """Does the work of a daemon that was killed: saves outputs and removes leftovers. hangs:
        see `rescue_job`."""
        if self._job_directory:
            self._rescue(self._job_directory, hangs)
        clean_up_directory(self._plan.local.path)

    def _rescue(self, job: str, hangs: bool) -> None:
        """Saves the outputs of a job. A second signal ends the copying."""
        left = left_behind(job)
        if left.waiting and not self._gave_up:
            size = show_bytes(left.waiting_bytes or 0)
            report.say(
                f"the node daemon died; {left.waiting:,} outputs ({size}) are copied to "
                f"{left.output_dir}"
            )
        told = 0

        def given_up() -> bool:
            nonlocal told
            told += sum(each.number in ENDING for each in self._signals.read())
            return self._gave_up or told > 1

        for rescued in rescue_job(job, given_up, hangs):
            for line in rescue_lines(rescued):
                report.say(line)

    def _outwait_ranks(self, waiting: Waiting | None, told_to_end: bool) -> Waiting | None:
        """Waits while other ranks' commands still read from this node, until a signal ends the
        wait."""
        heard = self._take(Waiting)
        if heard is not None and not self._plan.settings.quiet:
            report.say(f"the command has ended; other ranks ({heard.ranks}) still read here")
        waiting = heard or waiting
        if waiting is None or not told_to_end:
            return waiting
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._daemon.pid, signal.SIGTERM)
        return None


def _keep_from_command(fd: int | None) -> None:
    """Makes a descriptor close when the command is executed."""
    with contextlib.suppress(OSError):
        if fd is not None:
            os.set_inheritable(fd, False)


def run(plan: JobPlan, command: Sequence[str], container: Container | None = None) -> int:
    """Runs `command` in a job with the options `plan`, in a container if one is given. Returns its
    exit code."""
    report.set_rank(plan.launcher)
    unhinted = plan.settings.quiet or plan.settings.trap or container is not None
    hint = None if unhinted else entry_hint(command[0])
    if hint is not None:
        report.say(hint)
    if not plan.settings.quiet and not plan.settings.keep_mpi_env:
        hint = mpi_hint(command, plan.launcher)
        if hint is not None:
            report.say(hint)
    code = Wrapper(plan, container).run(command)
    sys.stderr.flush()
    return code
