"""fanstore exec: runs a command under a node daemon that is already running."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from fanstore import config
from fanstore.cli.command import Command, command_argument
from fanstore.cli.jobs.container_option import chosen_container, container_option, trap_option
from fanstore.cli.jobs.job_options import chosen_job, job_options

if TYPE_CHECKING:
    from fanstore.messages.job import Status

_POLL_S = 0.2


@click.command(cls=Command)
@job_options
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Time to wait for the job to serve [default: 0].",
)
@trap_option
@container_option
@command_argument
def command(
    job: str | None,
    local_dir: str | None,
    wait_s: float,
    trap: bool | None,
    container: str | None,
    command: tuple[str, ...],
) -> int:
    """Replace this process by CMD, which sees the mounts of the job. {} in CMD is the first one, as
    for `fanstore run`.

    The exit code is CMD's; 125, 126 and 127 are as for `fanstore run`.

    \b
    Example:
      fanstore exec -- python train.py --data {}
    """
    from fanstore.launch.attach import exec_under

    trapped = config.resolve({"trap": trap}).trap
    entered = chosen_container(container, trapped)
    return exec_under(_awaited_job(job, local_dir, wait_s), command, trapped, entered)


def _awaited_job(job: str | None, local_dir: str | None, wait_s: float) -> Status:
    """Waits at most `wait_s` until the job serves, and returns its status. Raises FanstoreError."""
    from fanstore.errors import FanstoreError

    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            return serving_job(job, local_dir)
        except FanstoreError:
            if time.monotonic() > deadline_s:
                raise
        time.sleep(_POLL_S)


def serving_job(job: str | None, local_dir: str | None) -> Status:
    """Returns the status of the job. Raises FanstoreError if it does not serve."""
    from fanstore.errors import FanstoreError
    from fanstore.job.jobs import describe_job
    from fanstore.messages.job import LeftJob

    found = describe_job(chosen_job(job, local_dir))
    if isinstance(found, LeftJob):
        if found.reason is not None:
            raise FanstoreError(f"job {found.job_id} is {found.state}: {found.reason}")
        raise FanstoreError(f"job {found.job_id} is {found.state}: `fanstore start` starts another")
    return found
