"""The `fanstore` command. Each subcommand is a module here with a click command `command`.

Nothing imports this package but the console script. Subcommands are imported when they are
called, so that `fanstore --help` loads neither NumPy nor the compiled libraries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fanstore import __version__
from fanstore.cli.completion import VARIABLE, with_proposals
from fanstore.cli.streams import (
    PipeBroken,
    complete_streams,
    end_by_sigpipe,
    output_error,
    past_click,
)
from fanstore.exit_codes import FAILED, INTERRUPTED, USAGE

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# name: (module, one-line help)
SUBCOMMANDS = {
    "prepare": (
        "datasets.prepare",
        "Pack a directory, a list of files or an archive into a dataset.",
    ),
    "ls": ("datasets.ls", "List what a dataset holds."),
    "info": ("datasets.info", "Describe a dataset."),
    "verify": ("datasets.verify", "Check every checksum of a dataset."),
    "extract": ("datasets.extract", "Unpack a dataset."),
    "rebuild-index": (
        "datasets.rebuild_index",
        "Make the index of a dataset again from its packs.",
    ),
    "import-table3": (
        "datasets.import_table3",
        "Make a dataset from partitions in the Table 3 layout.",
    ),
    "export-table3": (
        "datasets.export_table3",
        "Write a dataset as partitions in the Table 3 layout.",
    ),
    "run": ("jobs.run", "Run a command that sees datasets as ordinary files."),
    "start": ("jobs.start", "Start a node daemon that serves until it is stopped."),
    "stop": ("jobs.stop", "Stop a node daemon."),
    "status": ("jobs.status", "Show the node daemons of this machine."),
    "top": ("jobs.top", "Watch a job: what each rank and program reads, and waits for."),
    "exec": ("jobs.exec", "Run a command under a node daemon that is already there."),
    "warmup": ("jobs.warmup", "Bring files of a running job near this node, before they are read."),
    "clean": ("jobs.clean", "Remove what jobs left on this node."),
    "sbatch": ("jobs.sbatch", "Print a job script for Slurm."),
    "script": ("jobs.script", "Print a job script for Slurm, PBS, LSF or plain ssh."),
    "site-files": ("jobs.site_files", "Write man pages, shell completion and a module file."),
    "report": ("study.report", "Show what a job opened and waited for, as a page with plots."),
    "simulate": ("study.simulate", "Say how long a job would take, under each policy."),
    "calibrate": ("study.calibrate", "Measure this machine, for simulate and plan."),
    "plan": ("study.plan", "Plan what each node keeps and fetches in a job."),
    "analyze": ("study.analyze", "Say where a job waits, and what would help."),
    "whatif": ("study.whatif", "Say how fast an analysed job would be with other hardware."),
    "doctor": ("doctor", "Say what FanStore found here, and what a program needs."),
}

# These exit with the code of the command that they run; wrong usage of their own exits with FAILED.
WRAPPERS = ("run", "exec")


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is called, and lists them from the table above."""

    def make_context(self, *arguments: Any, **keywords: Any) -> click.Context:
        with past_click():
            return super().make_context(*arguments, **keywords)

    def invoke(self, ctx: click.Context) -> Any:
        with past_click():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in SUBCOMMANDS:
            return None
        command = import_module(f"fanstore.cli.{SUBCOMMANDS[name][0]}").command
        assert isinstance(command, click.Command)
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                parameter.callback = at_home
        if VARIABLE in os.environ:
            return with_proposals(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Proposes the subcommands in the table and this command's options; imports none."""
        from click.shell_completion import CompletionItem  # 3 ms, so only if a shell asks

        items = [(name, text) for name, (_, text) in SUBCOMMANDS.items()]
        found = [CompletionItem(n, help=text) for n, text in items if n.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Looks the subcommand up; for an unknown name, fails with a guess of the right one."""
        if args[0] not in SUBCOMMANDS:
            from difflib import get_close_matches  # 4 ms, so only for an unknown name

            close = get_close_matches(args[0], SUBCOMMANDS, 1, 0.6)
            if close:
                ctx.fail(f"No such command {args[0]!r}. Is {close[0]!r} meant?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in SUBCOMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fanstore")
def cli() -> None:
    """FanStore serves datasets of many small files from memory-mapped packs, as ordinary files."""


def fail(message: object, exit_code: int) -> NoReturn:
    """Prints an error on stderr and exits."""
    # In one write: several ranks may print at once.
    sys.stderr.write(f"fanstore: error: {message}\n")
    sys.exit(exit_code)


def describe(error: OSError) -> str:
    """Returns an OSError in the form `name: reason`."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"


def at_home(ctx: click.Context, option: click.Parameter, value: Any) -> Any:
    """Returns the value of an option with "~" replaced by the home directory: shells do not expand
    the tilde of `--option=~/path`."""
    if isinstance(value, tuple):
        return tuple(at_home(ctx, option, each) for each in value)
    if isinstance(value, str | Path) and (str(value) == "~" or str(value).startswith("~/")):
        return type(value)(os.path.expanduser(value))
    return value


def is_wrong_path(error: OSError, words: Sequence[str]) -> bool:
    """Returns whether the user named a wrong path: the path of `error` is one of the words, or the
    value of an --option=value, and is missing or of the wrong kind."""
    if not isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return False
    named = (os.path.normpath(word.partition("=")[2] or word) for word in words)
    return error.filename is not None and os.path.normpath(os.fsdecode(error.filename)) in named


def call(arguments: Sequence[str], usage: int) -> Any:
    """Runs a subcommand, and turns click's exceptions into exit codes. usage: the exit code for
    wrong usage."""
    try:
        return cli.main(args=arguments, prog_name="fanstore", standalone_mode=False)
    except click.Abort:
        print("fanstore: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(usage)


def main(arguments: list[str] | None = None) -> NoReturn:
    """The console script. Prints errors on stderr, and exits with their exit codes."""
    from fanstore.errors import FanstoreError, UsageError

    complete_streams()
    message: object = None
    words = sys.argv[1:] if arguments is None else arguments
    usage = FAILED if words[:1] and words[0] in WRAPPERS else USAGE
    try:
        result = call(words, usage)
        code = result if isinstance(result, int) else 0
    except UsageError as error:
        message, code = error, usage
    except FanstoreError as error:
        message, code = error, error.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except PipeBroken as error:
        message, code = error, FAILED
    except OSError as error:
        message, code = describe(error), usage if is_wrong_path(error, words) else FAILED
    except MemoryError as error:
        message, code = f"out of memory: {error}".removesuffix(": "), FAILED
    end(message, code)


def end(message: object, code: int) -> NoReturn:
    """Exits with `code`, and prints `message` unless it is None. If standard output cannot be
    written, ends by SIGPIPE or with FAILED instead."""
    error = output_error()
    of_output = isinstance(message, PipeBroken) and message.of_output
    if of_output or isinstance(error, BrokenPipeError):
        end_by_sigpipe()
    if error is not None:
        fail(describe(error), FAILED)
    if message is not None:
        fail(message, code)
    sys.exit(code)
