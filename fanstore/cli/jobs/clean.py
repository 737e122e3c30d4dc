"""fanstore clean: removes what jobs left on this node."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from fanstore.cli.jobs.job_options import local_directory
from fanstore.errors import FanstoreError
from fanstore.launch import report
from fanstore.wording import show_bytes

if TYPE_CHECKING:
    from fanstore.job.cleaning import Found


@click.command()
@click.option("--local-dir", metavar="DIR", help="The local directory to clean.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--unstaged", is_flag=True, help="Also outputs that are kept here and nowhere else.")
@click.option("--json", "as_json", is_flag=True, help="What was found, as JSON.")
def command(local_dir: str | None, dry_run: bool, unstaged: bool, as_json: bool) -> int:
    """Remove what no job of yours uses below the local directory: datasets that --keep-staged left,
    dead jobs, mount prefixes. Each is named with its size, what stays with the reason.

    Outputs of a dead job are first moved to its output directory. Outputs that could not be moved
    there (the folder `unstaged`) stay, unless --unstaged is given. The exit code is 125 when an
    output had to be kept.

    \b
    Example:
      fanstore clean --dry-run
    """
    from fanstore.errors import UsageError
    from fanstore.job.cleaning import Cleaner

    directory = local_directory(local_dir)
    if not os.path.isdir(directory):
        raise UsageError(f"local directory {directory}: no such directory")
    cleaner = Cleaner(directory, unstaged)
    found = cleaner.look() if dry_run else cleaner.clean()
    if as_json:
        rows = [asdict(each) for each in found.leftovers]
        click.echo(json.dumps({"directory": found.directory, "found": rows}, indent=2))
    else:
        show(found, dry_run)
        for other in elsewhere(found.directory) if local_dir is None else []:
            click.echo(f"not looked at: {other} (--local-dir {os.path.dirname(other)})")
    for line in found.lines:
        report.say(line)
    return FanstoreError.exit_code if found.is_short_of_outputs else 0


def show(found: Found, dry_run: bool) -> None:
    """Prints the leftovers that were removed, and those that stay, as text."""
    for each in found.leftovers:
        text = f"{each.verb(dry_run)}: {each.what} {each.path} ({show_bytes(each.bytes)})"
        click.echo(readable(f"{text}: {each.reason}" if each.reason else text))
    if not found.leftovers:
        click.echo(f"{readable(found.directory)}: nothing to remove")


def readable(text: str) -> str:
    """Returns a text without bytes that a terminal cannot show."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def elsewhere(looked_at: str) -> list[str]:
    """Returns FanStore's directories below the other local directories that jobs may have used."""
    from fanstore.staging.base import StagingFolder
    from fanstore.staging.local_dir import MEMORY_DIR, candidates

    paths = [MEMORY_DIR, *(each.path for each in candidates())]
    found = {StagingFolder(path).path for path in paths} - {looked_at}
    return sorted(path for path in found if os.path.isdir(os.path.join(path, "datasets")))
