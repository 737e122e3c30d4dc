"""fanstore exec: a command under a node daemon that is already there."""

from __future__ import annotations

import click

from fanstore.cli.job_options import chosen_job, job_options


@click.command(
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command under a node daemon that is already there.",
)
@job_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def command(job: str | None, local_dir: str | None, command: tuple[str, ...]) -> int:
    """Replace this process by CMD, which sees the mounts of the job."""
    from fanstore.errors import FanstoreError
    from fanstore.launch.attach import exec_under
    from fanstore.serve.jobs import describe_job

    found = describe_job(chosen_job(job, local_dir))
    if found["state"] != "serving":
        raise FanstoreError(f"job {found['job_id']} is {found['state']}")
    return exec_under(found, command)
