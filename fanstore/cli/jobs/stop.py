"""fanstore stop: ends a node daemon and removes what it made."""

from __future__ import annotations

import click

from fanstore.cli.jobs.job_options import chosen_job, job_options
from fanstore.errors import FanstoreError


@click.command()
@job_options
@click.option(
    "--flush/--no-flush",
    default=True,
    help="Wait until all outputs are in the output directory [default], or keep those that are "
    "not on the node.",
)
def command(job: str | None, local_dir: str | None, flush: bool) -> int:
    """Stop a daemon that `fanstore start` started; the leftovers of a dead one are removed.

    The exit code is 125 when an output is not in the output directory.

    \b
    Example:
      fanstore stop --job 1a2b3c4d
    """
    from fanstore.job.jobs import stop_job
    from fanstore.launch import report
    from fanstore.launch.flush_report import FlushReport
    from fanstore.launch.report import start_report, tell_report

    found = chosen_job(job, local_dir)
    if not found.alive:
        return remove_dead(found.job_id, found.directory)
    shown = FlushReport(quiet=False)
    try:
        summary = stop_job(found, flush, shown.hear)
    finally:
        shown.close()
    if summary is None:
        report.say(f"job {found.job_id}: the node daemon died")
        return remove_dead(found.job_id, found.directory)
    for line in [*report.problem_lines(summary), *summary.trace_lines]:
        report.say(line)
    process = start_report(summary)
    if process is not None:
        tell_report(summary.report, process.wait(), quiet=False)
    return FanstoreError.exit_code if report.went_wrong(summary) else 0


def remove_dead(job_id: str, directory: str) -> int:
    """Moves the outputs of a dead job to their output directory and removes the rest of it. Returns
    the exit code."""
    from fanstore.launch.report import say
    from fanstore.node.job_directory import clean_up_directory, rescue_job
    from fanstore.outputs.tree.dead_job import rescue_lines

    say(f"job {job_id} is dead; removing what it left")
    code = 0
    for rescued in rescue_job(directory):
        for line in rescue_lines(rescued):
            say(line)
        code = FanstoreError.exit_code if rescued.kept else code
    base = directory.rpartition("/jobs/")[0]
    clean_up_directory(base.rpartition("/")[0])
    return code
