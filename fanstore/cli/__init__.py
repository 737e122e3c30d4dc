"""The `fanstore` command. Each subcommand is a module here with a click command `command`.

Nothing imports this package but the console script. Subcommands are imported when they are
called, so that `fanstore --help` loads neither NumPy nor the compiled libraries.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from fanstore import __version__
from fanstore.cli.lazy_group import LazyGroup
from fanstore.cli.streams import PipeBroken, complete_streams, end_by_sigpipe, output_error
from fanstore.exit_codes import FAILED, INTERRUPTED, USAGE

cli = LazyGroup(
    "fanstore",
    {
        "Start": {
            "prepare": ("datasets.prepare", "Pack a directory, a file or an archive."),
            "run": ("jobs.run", "Run a command that sees datasets as ordinary files."),
            "doctor": ("doctor", "Say what FanStore found here, and what a program needs."),
        },
        "Datasets": {
            "ls": ("datasets.ls", "List what a dataset holds."),
            "info": ("datasets.info", "Describe a dataset."),
            "verify": ("datasets.verify", "Check every checksum of a dataset."),
            "extract": ("datasets.extract", "Unpack a dataset."),
            "dataset": ("datasets", "Rebuild an index; import and export the Table 3 layout."),
        },
        "Watch": {
            "status": ("jobs.status", "Show the node daemons of this machine."),
            "top": ("jobs.top", "Watch what each rank and program reads, and waits for."),
            "report": ("jobs.report", "Show a job's waits as a page with plots."),
        },
        "Jobs and schedulers": {
            "start": ("jobs.start", "Start a node daemon that serves until it is stopped."),
            "exec": ("jobs.exec", "Run a command under a node daemon that is already there."),
            "warmup": ("jobs.warmup", "Bring files near this node, before they are read."),
            "stop": ("jobs.stop", "Stop a node daemon."),
            "clean": ("jobs.clean", "Remove what jobs left on this node."),
            "script": ("jobs.script", "Print a job script for Slurm, PBS, LSF or plain ssh."),
            "site-files": (
                "jobs.site_files",
                "Write man pages, shell completion and a module file.",
            ),
        },
        "Study": {
            "study": ("study", "Analyze and simulate jobs (fanstore study --help)."),
        },
    },
    help="FanStore serves datasets of many small files from memory-mapped packs, as ordinary "
    "files.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
cli = click.version_option(__version__, prog_name="fanstore")(cli)

# These exit with the code of the command that they run; wrong usage of their own exits with FAILED.
WRAPPERS = ("run", "exec")


def fail(message: object, exit_code: int) -> NoReturn:
    """Prints an error on stderr and exits."""
    # In one write: several ranks may print at once.
    sys.stderr.write(f"fanstore: error: {message}\n")
    sys.exit(exit_code)


def describe(error: OSError) -> str:
    """Returns an OSError in the form `name: reason`."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"


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
