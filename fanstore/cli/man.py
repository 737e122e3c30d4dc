"""Makes man pages, in the language of man(7), from the definitions of the commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from fanstore import __version__

SECTION = 1


def page(parent: click.Context, name: str, command: click.Command, summary: str) -> str:
    """Returns the page of a command. name: such as "study whatif". parent: the context of
    `fanstore` itself. summary: one line for whatis(1)."""
    context = click.Context(command, parent, name)
    lines = [*_head(title(name), summary), ".SH SYNOPSIS"]
    usage = _text(" ".join(command.collect_usage_pieces(context)))
    lines += [f"\\fBfanstore {_text(name)}\\fR {usage}", ".SH DESCRIPTION"]
    lines += _paragraphs(command.help or "")
    lines += [".SH OPTIONS", *_options(command, context)]
    if command.epilog:  # the table of exit codes
        lines += [".SH EXIT STATUS", *_paragraphs(command.epilog.replace("Exit codes:\n", "", 1))]
    return "\n".join([*lines, ".SH SEE ALSO", f".BR fanstore ({SECTION})", ""])


def title(name: str) -> str:
    """Returns the title of the page of a command."""
    return f"fanstore-{name.replace(' ', '-')}"


def main_page(context: click.Context, commands: dict[str, str]) -> str:
    """Returns the page of `fanstore` itself. commands: the one-line summary of each, by name."""
    group = context.command
    lines = [*_head("fanstore", "serves datasets of many small files as ordinary files")]
    lines += [".SH SYNOPSIS", "\\fBfanstore\\fR COMMAND [ARGS]..."]
    lines += [".SH DESCRIPTION", *_paragraphs(group.help or ""), ".SH COMMANDS"]
    for name, summary in commands.items():
        lines += [".TP", f".BR {_text(title(name))} ({SECTION})", _text(summary)]
    return "\n".join([*lines, ".SH OPTIONS", *_options(group, context), ""])


def _head(title: str, summary: str) -> list[str]:
    version = f"FanStore {__version__}"
    summary = summary.removesuffix(".")
    return [
        f'.TH "{_text(title.upper())}" "{SECTION}" "" "{version}" "FanStore"',
        ".SH NAME",
        f"{_text(title)} \\- {_text(summary[:1].lower() + summary[1:])}",
    ]


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if isinstance(parameter, click.Option) and record is not None:
            yield from (".TP", f"\\fB{_text(record[0])}\\fR", _text(record[1]))


def _paragraphs(text: str) -> Iterator[str]:
    """Yields the paragraphs of a help text; one that begins with a line of \\b keeps its lines."""
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        if number > 0:
            yield ".PP"
        kept = paragraph.startswith("\b\n")
        lines = [_text(line) for line in paragraph.removeprefix("\b\n").split("\n")]
        yield from [".nf", *lines, ".fi"] if kept else lines


def _text(text: str) -> str:
    """Returns the text escaped, so that no character of it is a command of man."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^(?=[.'])", r"\\&", escaped)
