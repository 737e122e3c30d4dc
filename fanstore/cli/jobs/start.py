"""fanstore start: starts a node daemon that serves until it is stopped."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import click

from fanstore.cli.dataset_options import (
    ServingCommand,
    make_plan,
    remove_empty_report,
    serving_options,
)

if TYPE_CHECKING:
    from fanstore.launch.attach import Started


@click.command(
    cls=ServingCommand,
    common="dataset mount output_dir local_dir in_place keep_staged report as_json",
)
@serving_options
@click.option("--json", "as_json", is_flag=True, help="Describe the job as JSON.")
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, **options: Any) -> int:
    """Serve every SRC at its PREFIX until `fanstore stop`.

    As one of several ranks of mpiexec or srun it stays in the foreground until then.

    \b
    Example:
      fanstore start imagenet.fan --mount /data/imagenet
      fanstore exec -- python train.py --data /data/imagenet
      fanstore stop
    """
    from fanstore.launch.attach import start
    from fanstore.launch.report import tell_missing_plots
    from fanstore.messages.message import encode

    try:
        plan = make_plan(ctx, "start", **options)
        if plan.launcher.rank == 0:
            tell_missing_plots(plan.report_page)
        started = start(plan)
    except BaseException:
        remove_empty_report(ctx)
        raise
    if as_json:
        click.echo(
            json.dumps({**encode(started.job), "environment": started.environment}, indent=2)
        )
    else:
        show(started)
    if plan.launcher.world_size == 1:
        return 0
    sys.stdout.flush()
    return started.outlive()


def show(started: Started) -> None:
    """Prints the job that was started, and the commands to use and to end it."""
    job_id = started.job.job_id
    click.echo(f"job {job_id} serves (daemon {started.job.daemon_pid})")
    for dataset in started.job.datasets:
        click.echo(f"  {dataset.name} at {dataset.mount_prefix}")
    click.echo(f"run a command under it:  fanstore exec --job {job_id} -- CMD")
    click.echo("or set in a shell:")
    for name, value in started.environment.items():
        click.echo(f"  export {name}={shlex.quote(value)}")
    click.echo(f"end it:                  fanstore stop --job {job_id}")
