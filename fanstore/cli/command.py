"""Commands with a short --help, and commands that run another one."""

from __future__ import annotations

from typing import Any

import click

_SHOWS_ALL = "fanstore.shows_all"

command_argument = click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD...")


def split_command(words: list[str]) -> tuple[list[str], list[str]]:
    """Returns the words before the first `--`, and the command after it."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


class Command(click.Command):
    """A command of `fanstore`.

    common: the parameters that --help shows, with spaces between them; --help-all shows all, and
    the epilog. Without it --help shows everything. If the command has the argument `command`, the
    words after the first `--` are its value, and click sees those before it alone.
    """

    def __init__(self, *arguments: Any, common: str = "", **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.common = common.split()
        self._runs_another = any(each.name == "command" for each in self.params)
        if common:
            self.params.append(_help_all())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not self._runs_another:
            return self.parse_own(ctx, args)
        own, command = split_command(args)
        wanted = f"Write the command after --: {ctx.command_path} ... -- python train.py"
        try:
            rest = self.parse_own(ctx, own)
        except click.NoSuchOption as error:
            if "--" in args:
                raise
            # It is probably an option of the command.
            text = f"{wanted} (no option of {ctx.info_name}: {error.option_name})"
            raise click.UsageError(text, ctx) from None
        if not ctx.resilient_parsing and (ctx.params["command"] or not command):
            raise click.UsageError(wanted, ctx)
        ctx.params["command"] = tuple(command)
        return rest

    def parse_own(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the words that belong to this command."""
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shown = [each for each in self.get_params(ctx) if self._shows(ctx, each)]
        records = [record for each in shown if (record := each.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.common or _SHOWS_ALL in ctx.meta:
            super().format_epilog(ctx, formatter)

    def _shows(self, ctx: click.Context, parameter: click.Parameter) -> bool:
        if not self.common or _SHOWS_ALL in ctx.meta:
            return True
        return parameter.is_eager or parameter.name in self.common


def _help_all() -> click.Option:
    def show(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
        if asked and not ctx.resilient_parsing:
            ctx.meta[_SHOWS_ALL] = True
            click.echo(ctx.get_help())
            ctx.exit()

    return click.Option(
        ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=show,
        help="Show all options and exit.",
    )  # fmt: skip
