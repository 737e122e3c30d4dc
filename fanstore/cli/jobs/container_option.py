"""The options --trap and --container, for commands that do not load libraries as usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from fanstore.launch.containers import Container

trap_option = click.option(
    "--trap",
    is_flag=True,
    default=None,
    help="Serve programs that cannot load LD_PRELOAD libraries, too: static ones, Go.",
)

container_option = click.option(
    "--container",
    metavar="'WORDS'",
    help="Run CMD in the container that WORDS enter, such as 'apptainer exec IMAGE': FanStore "
    "binds and passes what it needs there.",
)


def chosen_container(words: str | None, trap: bool) -> Container | None:
    """Returns the container that the option names, or None. Raises UsageError."""
    from fanstore.errors import UsageError
    from fanstore.launch.containers import container_of

    if words is not None and trap:
        raise UsageError("--container and --trap: the trap is not brought into containers")
    return None if words is None else container_of(words)
