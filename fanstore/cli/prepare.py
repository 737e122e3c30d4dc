"""fanstore prepare: pack a directory, a list of files or a tar archive into a dataset."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from fanstore.prepare.prepare import Summary

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_BLOCK_MIN, _BLOCK_MAX = 4 << 10, 1 << 30


class BlockSize(click.ParamType):  # type: ignore[type-arg]
    """A power of two from 4 KiB to 1 GiB: 1048576, 1024K, 1M, 1MiB."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+)\s*([kmg]?)(i?b)?", str(value).strip().lower())
        size = int(found[1]) * _UNITS[found[2]] if found else 0
        if not _BLOCK_MIN <= size <= _BLOCK_MAX or size & (size - 1):
            self.fail(f"{value!r} is not a power of two from 4K to 1G", param, ctx)
        return size


@click.command(short_help="Pack a directory, a list of files or a tar archive into a dataset.")
@click.argument("source", metavar="SRC", type=click.Path())
@click.argument("destination", metavar="DST", type=click.Path())
@click.option(
    "--files-from",
    metavar="LIST",
    help="Pack only what LIST names, relative to SRC; separated by NUL or newline; - is stdin.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 1 << 20),
    help="Number of packs, balanced by bytes  [default: one per 256 MiB]",
)
@click.option(
    "--codec",
    default="store",
    show_default=True,
    help="store, lz4, lz4hc[:level], zstd[:level] or auto; kept per file where it saves 5 %.",
)
@click.option(
    "--replicate",
    multiple=True,
    metavar="GLOB",
    help="Files that match go to packs for every node; may be given several times.",
)
@click.option(
    "--block-size",
    type=BlockSize(),
    default=1 << 20,
    show_default="1M",
    help="Larger files are compressed in independent blocks of this size.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 1024),
    default=lambda: len(os.sched_getaffinity(0)),
    show_default="the CPUs at hand",
    help="Threads that read and compress.",
)
@click.option("--force", is_flag=True, help="Replace the dataset at DST.")
@click.option("--skip-unreadable", is_flag=True, help="Leave out, and name, what cannot be packed.")
@click.option("--json", "as_json", is_flag=True, help="A summary as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="No progress and no summary.")
def command(
    source: str, destination: str, files_from: str | None, partitions: int | None, codec: str,
    replicate: tuple[str, ...], block_size: int, jobs: int, force: bool, skip_unreadable: bool,
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Pack SRC, a directory or a tar archive (.tar, .tar.gz, .tar.zst), into the dataset DST.

    DST appears whole or not at all. The same input gives the same bytes, whatever --jobs.
    """
    from fanstore.prepare.codecs import parse_codec
    from fanstore.prepare.prepare import Options, open_source, prepare
    from fanstore.progress import progress_of

    options = Options(
        parse_codec(codec), partitions, replicate, block_size, jobs, force, skip_unreadable
    )
    signal.signal(signal.SIGTERM, _end)
    start_s = time.monotonic()
    opened = open_source(Path(source), files_from, skip_unreadable)
    try:
        with progress_of("packing", quiet=quiet) as progress:
            summary = prepare(
                opened, Path(destination), options, progress.expect, progress.advance
            )
    finally:
        opened.close()
    report(summary, destination, time.monotonic() - start_s, as_json, quiet)
    return 0


def _end(number: int, frame: object) -> NoReturn:
    """SIGTERM ends like Ctrl-C: what was begun is removed."""
    sys.exit(128 + number)


def report(summary: Summary, destination: str, took_s: float, as_json: bool, quiet: bool) -> None:
    """Names what was left out, and says what was made."""
    from fanstore.errors import show_path

    for path, reason in summary.left_out:
        click.echo(f"fanstore: left out: {show_path(path)}: {reason}", err=True)
    if as_json:
        described = {
            "dataset": destination,
            "dataset_id": summary.dataset_id,
            **summary.counts,
            "packs": [
                {"file_bytes": p.file_bytes, "entries": p.entry_count, "everywhere": p.everywhere}
                for p in summary.packs
            ],
            "left_out": [[show_path(path), reason] for path, reason in summary.left_out],
            "took_s": round(took_s, 3),
        }
        click.echo(json.dumps(described, indent=2))
    elif not quiet:
        counts = summary.counts
        rate = counts["logical_bytes"] / took_s / 1e6 if took_s else 0
        click.echo(
            f"{destination}: {counts['files']:,} files, {counts['logical_bytes']:,} bytes in "
            f"{len(summary.packs)} packs, {took_s:.1f} s ({rate:,.0f} MB/s)",
            err=True,
        )
