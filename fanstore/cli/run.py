"""fanstore run: a command that sees datasets as ordinary files."""

from __future__ import annotations

from typing import Any

import click

from fanstore.cli.dataset_options import (
    ServingCommand,
    make_plan,
    serving_options,
    usage_as_failure,
)


@click.command(
    cls=ServingCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Run a command that sees datasets as ordinary files.",
)
@serving_options
@click.option(
    "--trap",
    is_flag=True,
    default=None,
    help="Serve programs that no library can enter, too: static ones, Go, system calls of their "
    "own.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def command(ctx: click.Context, /, command: tuple[str, ...], **options: Any) -> int:
    """Run CMD with every --dataset mounted at its PREFIX, and remove everything afterwards.

    The exit code is CMD's (128 + signal if it was killed); 125 if FanStore itself failed, 126 if
    CMD cannot be executed, 127 if it was not found.
    """
    from fanstore.launch.wrapper import run

    with usage_as_failure():
        return run(make_plan(ctx, "run", **options), command)
