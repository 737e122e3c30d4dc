"""The words that a shell proposes for an option or an argument, derived from its metavar in
`--help`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The variable by which click's scripts ask for proposals.
VARIABLE = "_FANSTORE_COMPLETE"

# Words of the help that stand for a path.
_DIRECTORIES = {"DIR", "DST", "PREFIX"}
_FILES = {"FILE", "FILE.html", "LIST", "SCENARIO", "PROGRAM", "CMD", "SRC"}


class Proposed(click.ParamType):  # type: ignore[type-arg]
    """A parameter of any text. The shell proposes `words`, and also files or directories if `paths`
    is "file" or "dir"."""

    name = "text"

    def __init__(self, words: tuple[str, ...], paths: str) -> None:
        self.words = words
        self.paths = paths

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        if found or not self.paths:
            return found
        return [CompletionItem(incomplete, type=self.paths)]


def proposed(metavar: str) -> Proposed:
    """Returns the proposals for a parameter with this metavar, such as on|off|FILE."""
    stands_for = re.split(r"[|\s]+", metavar.strip("[]- ").replace("...", ""))
    words = tuple(word for word in stands_for if re.fullmatch(r"[a-z]+", word))
    if not _FILES.isdisjoint(stands_for):
        return Proposed(words, "file")
    return Proposed(words, "" if _DIRECTORIES.isdisjoint(stands_for) else "dir")


def with_proposals(command: click.Command) -> click.Command:
    """Adds proposals to the text parameters of a command, and returns it."""
    for parameter in command.params:
        if type(parameter.type) in (type(click.STRING), type(click.UNPROCESSED)):
            parameter.type = proposed(parameter.metavar or (parameter.name or "").upper())
    return command


def script(shell: str, cli: click.Command) -> str:
    """Returns the completion script of `fanstore` for a shell (bash, zsh or fish)."""
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    assert completion is not None
    return completion(cli, {}, "fanstore", VARIABLE).source()
