"""fanstore extract: unpack a dataset."""

from __future__ import annotations

import os
from pathlib import Path

import click

from fanstore.reading.tree import normal


@click.command()
@click.argument("dataset", type=click.Path())
@click.argument("destination", metavar="DST", type=click.Path())
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--force", is_flag=True, help="Replace DST if it exists.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(
    dataset: str, destination: str, paths: tuple[str, ...], force: bool, quiet: bool
) -> int:
    """Unpack DATASET, or only some PATHs of it, to the new directory DST. DATASET may be an
    address; packs are then copied to $TMPDIR for a while.

    Content, modes, times and links are those of the tree that was packed; owners too, for root.
    Every checksum is compared: damaged files are named and left out, and the exit code is 3.

    \b
    Example:
      fanstore extract imagenet.fan unpacked train/n01440764
    """
    from fanstore.extract import extract, total_bytes, with_parents
    from fanstore.progress import progress_of
    from fanstore.reading.packs import open_packed
    from fanstore.wording import counted

    with open_packed(dataset) as opened:
        starts = [opened.lookup(normal(os.fsencode(path))) for path in paths] or [0]
        records = with_parents(opened, starts)
        with progress_of("extracting", quiet=quiet) as progress:
            progress.expect(total_bytes(opened, records))
            count = extract(opened, Path(destination), records, force, progress.advance)
    if not quiet:
        click.echo(f"{destination}: {counted(count, 'entry')}", err=True)
    return 0
