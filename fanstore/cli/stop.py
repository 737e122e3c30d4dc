"""fanstore stop: ends a node daemon and removes what it made."""

from __future__ import annotations

import click

from fanstore.cli.job_options import chosen_job, job_options


@click.command(short_help="Stop a node daemon.")
@job_options
def command(job: str | None, local_dir: str | None) -> None:
    """Stop a daemon that `fanstore start` made; what a dead one left is removed."""
    from fanstore.launch.report import say
    from fanstore.serve.job_directory import clean_up_directory
    from fanstore.serve.jobs import stop_job

    found = chosen_job(job, local_dir)
    if found.alive:
        stop_job(found)
        return
    say(f"job {found.job_id} is dead; removing what it left")
    base = found.directory.rpartition("/jobs/")[0]
    clean_up_directory(base.rpartition("/")[0])
