"""Starts daemons that outlive this process (`fanstore start`), and runs commands in their jobs
(`fanstore exec`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fanstore.errors import FanstoreError
from fanstore.exit_codes import SIGNALLED
from fanstore.job.plan import JobPlan
from fanstore.launch import report
from fanstore.launch.command import exec_command, exit_code_of
from fanstore.launch.containers import Container
from fanstore.launch.daemon_process import DaemonFailed, DaemonProcess, start_daemon
from fanstore.launch.environment import command_environment
from fanstore.launch.flush_report import FlushReport
from fanstore.launch.placeholder import with_prefix
from fanstore.launch.probe import prepared
from fanstore.messages.job import (
    TOLD_BY_DAEMON,
    Failure,
    Flushing,
    JobDescription,
    JobSummary,
    Ready,
    Stall,
    Waiting,
)
from fanstore.messages.message import decode_one_of, from_line
from fanstore.node.job_directory import clean_up_directory, rescue_job
from fanstore.outputs.tree.dead_job import rescue_lines
from fanstore.programs.check import entry_hint


@dataclass(frozen=True)
class Started:
    """A daemon that serves. environment: the variables that make a process part of its job."""

    job: Ready
    environment: Mapping[str, str]
    daemon: DaemonProcess

    def outlive(self) -> int:
        """Waits until the daemon has ended, reports its end, and returns the exit code.

        For one of several ranks, because a launcher kills everything that it started when this
        process ends."""
        summary = None
        flush = FlushReport(quiet=False)
        while (messages := self.daemon.channel.hear(TOLD_BY_DAEMON)) is not None:
            for message in messages:
                if isinstance(message, Flushing):
                    flush.hear(message)
                elif isinstance(message, JobSummary):
                    summary = message
                elif isinstance(message, Stall):
                    report.say(message.line)
                elif isinstance(message, Waiting):
                    report.say(f"stopped; other ranks ({message.ranks}) still read here")
        flush.close()
        os.waitpid(self.daemon.pid, 0)
        if summary is None:
            report.say("the node daemon died")
            for rescued in rescue_job(self.job.job_directory):
                for line in rescue_lines(rescued):
                    report.say(line)
            return FanstoreError.exit_code
        lines = report.warning_lines(summary)
        for line in [*lines, *report.summary_lines(summary)]:
            report.say(line)
        return FanstoreError.exit_code if report.went_wrong(summary) else 0


def start(plan: JobPlan) -> Started:
    """Starts a daemon that outlives this process."""
    report.set_rank(plan.launcher)
    daemon = start_daemon(plan)

    told: list[int] = []

    def pass_on(number: int, _: object) -> None:
        told.append(number)
        os.kill(daemon.pid, signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # Hydra and Slurm send these for commands
        signal.signal(number, signal.SIG_IGN)
    line = daemon.channel.receive_line()
    if line is None:
        clean_up_directory(plan.local.path)
        if told:  # the signal came before the daemon listened, or while MPI started
            report.say("told to end before it served")
            raise SystemExit(SIGNALLED + told[0])
        _, status = os.waitpid(daemon.pid, 0)
        raise FanstoreError(daemon.unspoken_end(status, plan.local.in_memory))
    answer = decode_one_of((Failure, Ready), from_line(line))
    if isinstance(answer, Failure):
        if answer.told:
            raise SystemExit(answer.exit_code)
        raise DaemonFailed(answer.message, answer.exit_code)
    assert isinstance(answer, Ready)
    for warning in [*answer.warnings, *report.damage_lines(answer)]:
        report.say(warning)
    return Started(answer, job_environment(answer, os.environ.get("LD_PRELOAD", "")), daemon)


def job_environment(job: JobDescription, preload: str = "") -> dict[str, str]:
    """Returns the variables that make a process part of a job."""
    return command_environment({"LD_PRELOAD": preload}, job)


def exec_under(
    job: JobDescription,
    command: Sequence[str],
    trap: bool = False,
    container: Container | None = None,
) -> int:
    """Replaces this process by `command` in a job, inside `container` if that is given. Returns the
    exit code if that fails."""
    prefixes = [dataset.mount_prefix for dataset in job.datasets]
    command = with_prefix(command, prefixes[0])
    if container is None and not trap and (hint := entry_hint(command[0])) is not None:
        report.say(hint)
    command, environ, _ = prepared(command, os.environ, job, trap, container)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    problem = exec_command(command, environ, prefixes)
    report.say(f"error: {command[0]}: {os.strerror(problem)}")
    return exit_code_of(problem)
