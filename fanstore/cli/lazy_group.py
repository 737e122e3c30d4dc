"""A group of commands, listed in sections, that imports a command when it is called."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fanstore.cli.completion import VARIABLE, with_proposals
from fanstore.cli.streams import past_click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# By heading: the module below fanstore.cli and the one-line help of each command, by its name.
Sections = Mapping[str, Mapping[str, tuple[str, str]]]


class LazyGroup(click.Group):
    """A group whose commands are named in a table. The click command of a module is `command`."""

    def __init__(self, name: str, sections: Sections, **keywords: Any) -> None:
        super().__init__(name, **keywords)
        self.sections = sections
        self.entries = {name: entry for part in sections.values() for name, entry in part.items()}

    def make_context(self, *arguments: Any, **keywords: Any) -> click.Context:
        with past_click():
            return super().make_context(*arguments, **keywords)

    def invoke(self, ctx: click.Context) -> Any:
        with past_click():
            return super().invoke(ctx)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return self.load(name) if name in self.entries else None

    def load(self, name: str) -> click.Command:
        """Imports a command of the table."""
        command = import_module(f"fanstore.cli.{self.entries[name][0]}").command
        assert isinstance(command, click.Command)
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.callback is None:
                parameter.callback = at_home
        if VARIABLE in os.environ:
            return with_proposals(command)
        return command

    def leaves(self) -> Iterator[tuple[str, str, click.Command]]:
        """Yields the name, such as "study whatif", the one-line help and the command of each
        command of this group and of the groups in it."""
        for name, (_, summary) in self.entries.items():
            command = self.load(name)
            if isinstance(command, LazyGroup):
                for leaf, about, found in command.leaves():
                    yield f"{name} {leaf}", about, found
            else:
                yield name, summary, command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Proposes the commands in the table and this group's options; imports none."""
        from click.shell_completion import CompletionItem  # 3 ms, so only if a shell asks

        items = [(name, text) for name, (_, text) in self.entries.items()]
        found = [CompletionItem(n, help=text) for n, text in items if n.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Looks the command up; for an unknown name, fails with a guess of the right one."""
        if args[0] not in self.entries:
            from difflib import get_close_matches  # 4 ms, so only for an unknown name

            close = get_close_matches(args[0], self.entries, 1, 0.6)
            if close:
                ctx.fail(f"No such command {args[0]!r}. Is {close[0]!r} meant?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        longest = max(map(len, self.entries))
        for heading, part in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{longest}}", part[name][1]) for name in part])


def at_home(ctx: click.Context, option: click.Parameter, value: Any) -> Any:
    """Returns the value of an option with "~" replaced by the home directory: shells do not expand
    the tilde of `--option=~/path`."""
    if isinstance(value, tuple):
        return tuple(at_home(ctx, option, each) for each in value)
    if isinstance(value, str | Path) and (str(value) == "~" or str(value).startswith("~/")):
        return type(value)(os.path.expanduser(value))
    return value
