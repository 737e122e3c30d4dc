"""fanstore dataset export-table3: write a dataset as partitions in the Table 3 layout."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("dataset", metavar="DATASET", type=click.Path())
@click.argument("destination", metavar="DST", type=click.Path())
@click.option("--force", is_flag=True, help="Replace the partitions at DST.")
@click.option("--quiet", is_flag=True, help="No progress and no summary.")
def command(dataset: str, destination: str, force: bool, quiet: bool) -> int:
    """Write the files of DATASET to the new directory DST, one uncompressed partition for each
    pack, in the layout of Table 3 of the FanStore paper.

    The layout knows regular files alone. Other entries are left out, and named.

    \b
    Example:
      fanstore dataset export-table3 imagenet.fan partitions
    """
    from fanstore.dataset import open_dataset
    from fanstore.errors import show_path
    from fanstore.progress import progress_of
    from fanstore.table3.export import export_table3
    from fanstore.wording import counted

    with (
        open_dataset(dataset, verify=True) as opened,
        progress_of("exporting", quiet=quiet) as progress,
    ):
        progress.expect(opened.header.logical_bytes)
        done = export_table3(opened, Path(destination), force, progress.advance)
    for path, reason in done.left_out:
        click.echo(f"fanstore: left out: {show_path(path)}: {reason}", err=True)
    if not quiet:
        files, parts = counted(done.files, "file"), counted(done.partitions, "partition")
        click.echo(f"{destination}: {files} in {parts}", err=True)
    return 0
