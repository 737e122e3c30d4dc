"""fanstore run: runs a command that sees datasets as ordinary files."""

from __future__ import annotations

import os
from typing import Any

import click

from fanstore import exit_codes
from fanstore.cli.command import command_argument
from fanstore.cli.dataset_options import (
    ServingCommand,
    make_plan,
    remove_empty_report,
    serving_options,
    usage_as_failure,
)
from fanstore.cli.jobs.container_option import chosen_container, container_option, trap_option


@click.command(
    cls=ServingCommand,
    common="dataset mount output_dir continue_outputs local_dir in_place keep_staged report "
    "trap quiet",
    epilog=exit_codes.help_text(),
)
@serving_options
@trap_option
@container_option
@command_argument
@click.pass_context
def command(
    ctx: click.Context, /, command: tuple[str, ...], container: str | None, **options: Any
) -> int:
    """Run CMD, which finds the files of each SRC at its PREFIX. SRC is a directory, the objects of
    a bucket (s3://BUCKET/PREFIX), or a dataset that `fanstore prepare` made. Its files are not
    changed: what CMD writes at PREFIX goes to the output directory.

    In CMD the words {}, {}/train and --data={} have the first PREFIX in place of {}.

    \b
    Examples:
      fanstore run ~/data/imagenet -- python train.py --data ~/data/imagenet
      srun --ntasks-per-node=1 --mpi=pmi2 fanstore run imagenet.fan \\
          --mount /data/imagenet -- python train.py --data {}
    """
    from fanstore.launch.environment import refuse_nesting
    from fanstore.launch.wrapper import run

    refuse_nesting(os.environ)
    with usage_as_failure():
        try:
            plan = make_plan(ctx, "run", **options)
            return run(plan, command, chosen_container(container, bool(plan.settings.trap)))
        finally:
            remove_empty_report(ctx)
