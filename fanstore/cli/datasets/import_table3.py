"""fanstore dataset import-table3: make a dataset from partitions in the Table 3 layout."""

from __future__ import annotations

from pathlib import Path

import click

from fanstore.cli.datasets.prepare import report


@click.command()
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.argument("dst", type=click.Path(path_type=Path))
@click.option(
    "--partitions",
    type=click.IntRange(1, 99999),
    help="Number of packs [default: as for `fanstore prepare`].",
)
@click.option(
    "--codec",
    default="store",
    show_default=True,
    help="As for `fanstore prepare`: store, lz4, lz4hc, zstd or auto.",
)
@click.option("--force", is_flag=True, help="Replace a dataset that is at DST.")
@click.option("--quiet", is_flag=True, help="No progress and no summary.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
def command(
    files: tuple[Path, ...], dst: Path, partitions: int | None, codec: str, force: bool,
    quiet: bool, as_json: bool,
) -> int:  # fmt: skip
    """Make the dataset DST from partition FILEs in the layout of Table 3 of the FanStore paper.

    Modes, times and owners are those in the partitions; directories, which the layout does not
    hold, get mode 0755. Compressed partitions (LZSSE8) are refused.

    \b
    Example:
      fanstore dataset import-table3 partitions/* imagenet.fan
    """
    from fanstore.prepare.codecs import parse_codec
    from fanstore.prepare.run import PrepareOptions, default_jobs
    from fanstore.table3.source import import_table3

    options = PrepareOptions(
        partitions, parse_codec(codec), jobs=default_jobs(), force=force, quiet=quiet
    )
    report(import_table3(files, dst, options), dst, options, as_json)
    return 0
