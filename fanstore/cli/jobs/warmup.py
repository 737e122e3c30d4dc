"""fanstore warmup: brings files of a running job near this node."""

from __future__ import annotations

import json
import os

import click

from fanstore.cli.jobs.job_options import chosen_job, job_options


@click.command()
@job_options
@click.option(
    "-f",
    "--files-from",
    "listed",
    metavar="LIST",
    help="Also the paths in this file, one a line, or each ended by NUL; - is standard input.",
)
@click.option("-0", "--null", is_flag=True, help="LIST has a NUL behind each path, no newlines.")
@click.option("--quiet", is_flag=True, help="No progress and no summary.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
def command(
    job: str | None, local_dir: str | None, listed: str | None, null: bool, quiet: bool,
    as_json: bool, paths: tuple[str, ...],
) -> int:  # fmt: skip
    """Bring the files and directory trees at PATHs, in mounts of a job on this node, near: what
    this node is to keep to its disk, other files that are elsewhere to its block cache, what is on
    its disk to memory. Programs that read go before that.

    \b
    Example, in the job itself, or in a second terminal on the node:
      fanstore warmup /data/imagenet/val
      fanstore exec -- find /data -name '*.png' -print0 | fanstore warmup -0 -f -

    At most half of the block cache is filled with files that nobody has read yet; the summary
    counts those without room. In a job of several nodes warm up each one, with srun for example.
    The exit code is 1 if files could not be read.
    """
    from fanstore.errors import FanstoreError
    from fanstore.warm.run import warm_up
    from fanstore.warm.tally import as_dict, line

    named = wanted(paths, listed, null)
    found = chosen_job(job, local_dir)
    if not found.alive:
        raise FanstoreError(f"job {found.job_id} is dead: its daemon was killed")
    tally, files = warm_up(found, named, quiet or as_json)
    if as_json:
        click.echo(json.dumps(as_dict(tally, files), indent=2))
    elif not quiet:
        click.echo(line(tally, files))
    return 1 if tally.failed else 0


def wanted(paths: tuple[str, ...], listed: str | None, null: bool) -> list[bytes]:
    """Returns the paths that are named as arguments or in a list. Raises UsageError."""
    from fanstore.errors import UsageError
    from fanstore.prepare.listed import read_list

    if null and listed is None:
        raise UsageError("--null says how LIST is written: give one with -f")
    if not paths and listed is None:
        raise UsageError("name files or directories of a mount, or a list of them with -f")
    named = [os.fsencode(path) for path in paths]
    if listed is not None:
        named += read_list(listed, null)
    if not named:
        raise UsageError(f"{listed}: names nothing")
    return named
