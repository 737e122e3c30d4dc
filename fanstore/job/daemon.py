"""The node daemon's life: stage, serve until told to end, remove everything.

It runs in its own process, forked by the wrapper or by `fanstore start`, with a channel to its
parent. It sends "ready" or "error" on that channel, later "stall" (a line about a rank that reads
wait for), and at the end "flushing" (outputs are on their way), "waiting" (other ranks still read
from this one) and "summary". The wrapper sends "command" (the command's pid), "end" and "give_up"
(do not wait for outputs). fanstore.messages.job has their types. If the channel closes, the wrapper
has died. The daemon sends "flushing", "waiting" and "summary" to `fanstore stop`, too.
"""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TypeVar

from fanstore.errors import FanstoreError
from fanstore.job.job import NodeJob
from fanstore.job.near import answer_near
from fanstore.job.outputs import FLUSH_TELL_S, Flush
from fanstore.job.plan import JobPlan
from fanstore.messages.channel import Channel, peer_uid
from fanstore.messages.figures import OutputAccount
from fanstore.messages.job import (
    TOLD_BY_WRAPPER,
    AskedReport,
    Command,
    End,
    Failure,
    FinalStatus,
    GiveUp,
    JobSummary,
    Ready,
    Stall,
    Waiting,
    has_looked,
)
from fanstore.messages.message import (
    Message,
    MessageError,
    decode_one_of,
    from_line,
    replace,
    values_of,
)
from fanstore.messages.requests import (
    REQUESTS,
    AskStatus,
    BeginSession,
    BeginVisit,
    DaemonRequest,
    Refusal,
    StopJob,
    Stopping,
)
from fanstore.node.process import Process, log_to
from fanstore.node.server import LOOK_EVERY_S
from fanstore.node.sessions import Sessions
from fanstore.node.trace_parts import TracePart, begun, join_traces, place_alone
from fanstore.node.visit import SharedCache
from fanstore.outputs.service import OutputService
from fanstore.outputs.tree.end import unstaged_of
from fanstore.staging.crew import Stop, Stopped
from fanstore.startup import MpiWorld, RankLost, World

_REQUEST_TIMEOUT_S = 2.0
_FINISH_POLL_S = 0.01
_TELL_AFTER_S = 2.0
_DESCRIPTORS = 1 << 16
_OWN_DESCRIPTORS = 64

R = TypeVar("R")


def describe(error: BaseException) -> Failure:
    """Returns an error as a message; an unexpected error carries its traceback."""
    if isinstance(error, FanstoreError):
        told = isinstance(error, RankLost) and error.told
        return Failure(message=str(error), exit_code=error.exit_code, told=told)
    text = "".join(traceback.format_exception(error)).rstrip()
    if isinstance(error, OSError):
        name = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        text = f"{name}{error.strerror or error}"
    return Failure(message=text, exit_code=FanstoreError.exit_code)


def _raise_descriptor_limit() -> None:
    """Raises the limit of descriptors as far as allowed: each client connection, and each writing
    process, takes one."""
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= limit < _DESCRIPTORS:
        wanted = _DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _DESCRIPTORS)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def descriptor_warning(world_size: int) -> str:
    """Returns a warning if MPI may run out of descriptors, which would end the daemon; otherwise
    "". MPI takes a descriptor for each other rank, over TCP and over shared memory."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = _OWN_DESCRIPTORS + world_size
    if limit == resource.RLIM_INFINITY or limit >= needed:
        return ""
    return (
        f"the daemon may have {limit} files open; MPI may need {needed} for {world_size} ranks: "
        "raise the hard limit (ulimit -Hn), or the daemon may end without a message"
    )


class Daemon:
    """Runs one job. parent: the channel to the process that started the daemon."""

    def __init__(self, plan: JobPlan, parent: Channel) -> None:
        self.stop = Stop()
        self.world = World()
        self.job = NodeJob(plan, self.stop)
        self._plan = plan
        self._parent = parent
        self._wrapped = plan.kind == "run"
        self._command: Process | None = None
        self._ended = False
        self._with_all = True
        self._no_flush = False
        self._looked_s = 0.0
        self._served_s = 0.0
        self._stoppers: list[Channel] = []
        self._selector = selectors.DefaultSelector()
        self._wakeup, self._waker = socket.socketpair()

    def run(self) -> int:
        """Serves until the job's end, and removes everything that the daemon made. Returns the exit
        code."""
        _raise_descriptor_limit()
        try:
            self._join()
            self.job.open(self.world)
            listener = self.job.listener()
            self.job.serve()
            ready = self._ready()
            self._parent.send(ready)
        except BaseException as error:
            return self._give_up(error)
        self._detach_stderr()
        begun_s = time.monotonic()
        with listener:
            self._serve(listener)
            if self.job.cache is not None:
                self.job.cache.close()
            if self._wrapped and not self._ended:
                self._outwait_command()
            self._served_s = time.monotonic() - begun_s
            self._flush()
            self._outwait_ranks()
        outputs = self._account()
        summary = self._summary(outputs)
        left = self._close()
        warnings = self.job.warnings[len(ready.warnings) :]
        self._tell(replace(summary, left=left, warnings=warnings))
        self.world.finish(self._with_all)
        return 0

    def _join(self) -> None:
        """Joins the other ranks, if a launcher started several."""
        launcher = self._plan.launcher
        if launcher.world_size > 1:
            if (warning := descriptor_warning(launcher.world_size)) and launcher.rank == 0:
                print(f"fanstore: {warning}", file=sys.stderr, flush=True)
            patience_s = self._plan.settings.peer_wait_s
            self.world = MpiWorld(launcher.world_size, patience_s, self.stop.check)

    def _give_up(self, error: BaseException) -> int:
        failure = describe(error)
        whole = self.job.stop_serving()
        if whole:
            self.world.fail(failure.message)
        self._close()
        if isinstance(error, Stopped):
            said = f"told to end before the command started; {self.job.kept()}"
            failure = replace(failure, message=said)
        self._parent.try_send(failure)
        self.world.finish(whole)
        return failure.exit_code

    def _flush(self) -> None:
        """Waits until every output is in the output directory or cannot be placed. Answers requests
        meanwhile."""
        outputs = self.job.outputs
        if outputs is None:
            return
        self._outwait(outputs, outputs.submit(outputs.flush()))

    def _account(self) -> OutputAccount | None:
        """Returns the account of the outputs. By then each of them is placed, or kept on this
        node."""
        outputs = self.job.outputs
        if outputs is None:
            return None
        work = outputs.submit(outputs.account(unstaged_of(self.job.directory.path)))
        problem = self._outwait(outputs, work)
        if problem:
            return OutputAccount(**values_of(outputs.figures()), failed=problem)
        account: OutputAccount = work.result()
        return account

    def _outwait(self, outputs: OutputService, work: Future[R]) -> str:
        """Waits until `work` of the outputs is done or given up. Returns why it failed, or ""."""
        told_to_end = self.stop.is_set()
        self.stop.clear()
        flush = Flush(outputs, work, self._tell, self._wake)
        while flush.goes_on():
            if self._no_flush or (self.stop.is_set() and not self._wrapped):
                flush.give_up()
            self._handle_events(FLUSH_TELL_S)
        if self._wrapped:
            self.stop.clear()  # Slurm's signal at the time limit is meant for the command
        elif told_to_end:
            self.stop.set()
        return flush.problem()

    def _tell(self, message: Message) -> None:
        """Sends a message to the parent, and to every `fanstore stop` that waits."""
        for channel in (self._parent, *self._stoppers):
            channel.try_send(message)

    def _wake(self) -> None:
        """Ends the wait for events. May be called from any thread."""
        with contextlib.suppress(BlockingIOError):
            self._waker.send(b"\0")

    def _summary(self, outputs: OutputAccount | None) -> JobSummary:
        """Returns this rank's last status. If no rank is lost, adds on every rank whether any
        command looked at a mount, and on rank 0 the status of each rank."""
        whole = self.job.stop_serving()
        if whole and not self._with_all:
            self.world.fail("told to end before the other ranks")
        self._with_all = self._with_all and whole
        own = {**values_of(self.job.status()), "outputs": outputs}
        status = FinalStatus(
            **own,
            served_s=self._served_s,
            waited_s=self.job.waited_s(),
            first_refused=self.job.first_refused(),
        )
        any_looked, ranks = None, None
        if self._with_all and self.world.world_size > 1:
            self.world.hurry()
            try:
                gathered = self.world.gather(status)
                looked = any(has_looked(rank) for rank in gathered or [])
                any_looked, ranks = self.world.broadcast(looked), gathered
            except FanstoreError:
                self._with_all = False
        trace_lines, is_placed = self._place_trace([status] if ranks is None else ranks)
        page, report = self._plan.report_page, None
        if page and is_placed:
            report = AskedReport(page=page, trace=self._plan.trace_file)
        elif page and self.world.rank == 0:
            trace_lines.append("report: not made, for there is no trace")
        return JobSummary(
            **values_of(status), any_looked=any_looked, ranks=ranks, trace_lines=trace_lines,
            report=report, left=(), warnings=(),
        )  # fmt: skip

    def _place_trace(self, ranks: Sequence[FinalStatus]) -> tuple[list[str], bool]:
        """Moves the kept trace to the file that the user named. ranks: the ranks whose status is
        known, this one first. Returns the lines to print about the trace, and whether a trace
        exists."""
        file = self._plan.trace_file
        if not file or self.job.lanes is None:
            return [], False
        if self._with_all and self.world.rank > 0:
            return [], True  # rank 0 joins the traces
        parts = [
            TracePart(rank.trace.path, rank.trace.problem, rank.rank, rank.host)
            for rank in ranks if rank.trace is not None
        ]  # fmt: skip
        said = [f"trace: {part.problem}" for part in parts if part.problem]
        if len(ranks) < self.world.world_size or self.world.world_size == 1:
            if not begun(parts[:1]):
                return said, False
            return said + place_alone(file, parts[0], self.world.world_size), True
        parts = begun(parts)
        return said + (join_traces(file, parts) if parts else []), bool(parts)

    def catch_signals(self) -> None:
        """Makes signals set the stop flag and wake the event loop. Call it before `run`, in the
        main thread."""
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop.set())
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)

    def _ready(self) -> Ready:
        return Ready(
            **values_of(self.job.about()),
            trace=None if self.job.lanes is None else self.job.lanes.figures(),
            locks=self.job.lock_paths(),
            warnings=list(self.job.warnings),
        )

    def _detach_stderr(self) -> None:
        """Redirects this daemon's stderr to its log from now on, because the parent's stderr
        belongs to the command."""
        log_to(self.job.directory.file("log"))

    def _serve(self, listener: socket.socket) -> None:
        selector = self._selector
        server = self.job.server
        self._sessions = Sessions(selector, None if server is None else server.node, self.job.warn)
        cache = self.job.cache
        if cache is not None:
            cache.open(selector, self._sessions)
        selector.register(listener, selectors.EVENT_READ, lambda: self._answer(listener))
        selector.register(self._wakeup, selectors.EVENT_READ, self._woken)
        if self.job.maps is not None:
            self.job.maps.register(selector)
        if self._wrapped:
            selector.register(self._parent, selectors.EVENT_READ, self._hear_parent)
        elif self.world.world_size == 1:
            self._parent.close()
        pause_s = None if cache is None else LOOK_EVERY_S
        self._look_at(cache)
        while not self._ended and self._handle_events(pause_s):
            self._tell_stalls()
            self._look_at(cache)

    def _look_at(self, cache: SharedCache | None) -> None:
        """Leaves a host that does not answer, and fills the disk unless a host does so."""
        if cache is not None and cache.look():
            self.job.fill()

    def _tell_stalls(self) -> None:
        """Reports reads that wait for a rank or the shared file system, to the log and to the
        parent."""
        server = self.job.server
        if server is None or (now_s := time.monotonic()) - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        for line in server.stall_lines():
            print(line, file=sys.stderr, flush=True)
            self._tell(Stall(line=line))

    def _handle_events(self, timeout_s: float | None) -> bool:
        """Waits for events and handles them. Returns False if the daemon must end."""
        return all([key.data() is not False for key, _ in self._selector.select(timeout_s)])

    def _outwait_ranks(self) -> None:
        """Answers other ranks until their commands have ended, or until a signal ends the wait."""
        since_s = time.monotonic()
        told = False
        while (left := self.job.ranks_to_serve()) > 0 and not self.stop.is_set():
            if not told and time.monotonic() - since_s > _TELL_AFTER_S:
                self._tell(Waiting(ranks=left))
                told = True
            self._handle_events(_FINISH_POLL_S)
        self._with_all = left == 0

    def _woken(self) -> bool:
        """Handles a signal. Without a wrapper the daemon ends; with one, it goes on until the
        wrapper sends "end". Returns False if it must end."""
        self._wakeup.recv(4096)
        return self._wrapped or not self.stop.is_set()

    def _hear_parent(self) -> bool:
        messages = self._parent.hear(TOLD_BY_WRAPPER)
        for message in messages or []:
            if isinstance(message, Command):
                self._command = Process(message.pid)
            elif isinstance(message, End):
                self._ended = True
                self.stop.clear()  # Slurm also signals daemons, long before their commands end
            elif isinstance(message, GiveUp):
                self._no_flush = True
        if messages is None:
            self._selector.unregister(self._parent)
        return messages is not None

    def _outwait_command(self) -> None:
        """Handles that the wrapper was killed: goes on serving the command for a while (the kernel
        has signalled the command), then kills the command."""
        if self._command is not None:
            self._command.wait(self.job.plan.settings.orphan_wait_s)
            self._command.kill()
            self._command.wait(5.0)

    def _answer(self, listener: socket.socket) -> bool:
        """Answers one request of a client, or of `fanstore status` or `stop`. Returns False if the
        daemon must end."""
        try:
            stream, _ = listener.accept()
        except OSError:  # the client has ended, or no descriptor is free
            time.sleep(_FINISH_POLL_S)
            return True
        channel = Channel(stream)
        stream.settimeout(_REQUEST_TIMEOUT_S)
        try:
            with contextlib.suppress(OSError):
                if peer_uid(stream) != os.getuid():
                    return True
                line = channel.receive_line()
                return line is None or self._reply(channel, line)
        finally:
            if not self._keeps(channel):
                channel.close()
        return True

    def _keeps(self, channel: Channel) -> bool:
        """Returns whether a connection stays open after its request was answered."""
        cache = self.job.cache
        is_guest = cache is not None and cache.owns(channel)
        return is_guest or self._sessions.owns(channel) or channel in self._stoppers

    def _reply(self, channel: Channel, line: bytes) -> bool:
        try:
            request = decode_one_of(REQUESTS, from_line(line))
            if isinstance(request, StopJob) and not self._wrapped:
                return self._stop(channel, request)
            cache = self.job.cache
            if isinstance(request, BeginSession):
                (cache or self._sessions).begin(channel)
            elif isinstance(request, BeginVisit) and cache is not None:
                cache.receive(channel, request)
            else:
                channel.send(self._answer_to(request))
        except (MessageError, ValueError) as error:
            channel.send(Refusal(error=f"a request that cannot be answered: {error}"))
        return True

    def _stop(self, channel: Channel, request: StopJob) -> bool:
        channel.send(Stopping(stopping=True))
        self._stoppers.append(channel)
        self._no_flush = self._no_flush or not request.flush
        return False

    def _answer_to(self, request: DaemonRequest | None) -> Message:
        """Returns the answer to a request. Raises ValueError if it cannot be answered."""
        if isinstance(request, AskStatus):
            return self.job.status()
        if isinstance(request, StopJob):
            return Refusal(error="a job of `fanstore run` ends with its command: end that")
        try:
            answer = None if request is None else answer_near(self.job, request)
        except OSError as error:
            raise ValueError(str(error)) from None
        return answer or Refusal(error="unknown request")

    def _close(self) -> list[str]:
        try:
            return self.job.close()
        except (OSError, FanstoreError) as error:
            print(f"fanstore: clean-up: {error}", file=sys.stderr)
            return []
