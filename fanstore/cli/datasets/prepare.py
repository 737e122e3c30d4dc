"""fanstore prepare: pack a source into a dataset."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from fanstore.buckets.address import is_address
from fanstore.config import SETTINGS, parse_bytes, resolve
from fanstore.errors import UsageError

if TYPE_CHECKING:
    from fanstore.prepare.run import PrepareOptions, Summary


# Settings that say how much of a node a job may use, and how much it says.
_KEPT = ("local_dir", "local_bytes", "memory_bytes", "cache_bytes", "quiet")


class ByteCount(click.ParamType):  # type: ignore[type-arg]
    """A parameter that is a number of bytes: 65536, 64K, 1MiB."""

    name = "bytes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        try:
            return parse_bytes(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class PathOrAddress(click.Path):
    """A path, or an address in a bucket, which stays a str."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        return value if is_address(str(value)) else super().convert(value, param, ctx)


def _prepare_objects(src: str, dst: Path | str | None, quiet: bool) -> NoReturn:
    """Has a job show the objects as files to this command. Raises UsageError without `dst`."""
    if dst is None:
        raise UsageError(f"name the dataset to make of {src}: fanstore prepare SRC DST")
    if f"{dst}/".startswith(src.rstrip("/") + "/"):
        raise UsageError(f"{dst}: lies inside the source {src}")
    own = [sys.executable, "-m", "fanstore"]
    words = ["{}" if word == src else word for word in sys.argv[1:]]
    at = words.index("prepare") + 1
    words[at:at] = ["--origin", src]
    job = [*own, "run", *["--quiet"] * quiet, src, "--", *own, *words]
    os.execve(sys.executable, job, _job_environment())


def _job_environment() -> dict[str, str]:
    """Returns the environment of that job, for which the user has made no other settings."""
    settings = resolve()
    environ = {**os.environ, "FANSTORE_CONFIG": os.devnull}
    for setting in SETTINGS:
        value = getattr(settings, setting.name) if setting.name in _KEPT else None
        environ.pop(setting.variable, None)
        if value is not None:
            environ[setting.variable] = str(value)
    return environ


@click.command()
@click.argument("src", type=PathOrAddress(exists=True, allow_dash=True, path_type=Path))
@click.argument("dst", required=False, type=PathOrAddress(path_type=Path))
@click.option(
    "--files-from",
    metavar="LIST",
    help="Pack only the entries that LIST (- for stdin) names, relative to SRC; NUL- or "
    "newline-separated. A listed directory comes without the entries in it.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 99999),
    help="Number of packs [default: one per 256 MiB, but up to 16 of at least 4 MiB].",
)
@click.option(
    "--codec",
    help="store, lz4, lz4hc[:1-12], zstd[:1-22] or auto (lz4 where a sample of a block saves 5 %) "
    "[default: store; with --update that of DST].",
)
@click.option(
    "--replicate",
    multiple=True,
    metavar="GLOB",
    help="Files matching GLOB, or below a directory that does, go to packs that every "
    "node keeps; * matches slashes too. Repeatable.",
)
@click.option(
    "--block-size",
    type=ByteCount(),
    help="Larger files are compressed in independent blocks of this size [default: 1MiB].",
)
@click.option("--jobs", "-j", type=click.IntRange(1, 1024), help="Workers [default: processors].")
@click.option("--force", is_flag=True, help="Replace a dataset that is at DST.")
@click.option(
    "--update",
    is_flag=True,
    help="Update the dataset at DST to the content of SRC; files with unchanged path, size and "
    "time are not read again.",
)
@click.option(
    "--skip-unreadable",
    is_flag=True,
    help="Leave out and name entries that cannot be packed, instead of failing.",
)
@click.option("--quiet", is_flag=True, help="No progress and no summary.")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
@click.option("--origin", default="", hidden=True, help="The address of what SRC shows.")
def command(
    src: Path, dst: Path | str | None, files_from: str | None, partitions: int | None,
    codec: str | None, replicate: tuple[str, ...], block_size: int | None, jobs: int | None,
    force: bool, update: bool, skip_unreadable: bool, quiet: bool, as_json: bool, origin: str,
) -> int:  # fmt: skip
    """Pack SRC, a directory, an archive, a file or the objects of a bucket (s3://BUCKET/PREFIX),
    into the new dataset DST (default: beside SRC, imagenet.fan for imagenet). If DST is an address,
    the dataset is made in $TMPDIR first.

    An archive is tar (plain, or with gzip, bzip2, xz, zstd or lz4) or zip, or - for one of them on
    standard input. cpio, 7-Zip, ISO 9660 and RAR are read if libarchive is installed.

    \b
    Examples:
      fanstore prepare ~/data/imagenet
      fanstore prepare imagenet.tar.zst /shared/imagenet.fan
    """
    from fanstore.prepare.codecs import parse_codec
    from fanstore.prepare.listed import read_list
    from fanstore.prepare.run import (
        BLOCK_BYTES,
        PrepareOptions,
        default_jobs,
        default_target,
        prepare,
    )
    from fanstore.prepare.sending import BucketDestination

    if is_address(str(src)):
        _prepare_objects(str(src), dst, quiet)
    dst = dst or default_target(src)
    with ExitStack() as stack:
        target, bucket = Path(dst), None
        if isinstance(dst, str):
            if update:
                raise UsageError(f"--update wants a dataset on a file system, not {dst}")
            bucket = BucketDestination(dst, force)
            scratch = tempfile.TemporaryDirectory(prefix="fanstore-")
            target = Path(stack.enter_context(scratch), "made.fan")
        if update:
            _check_update(force, block_size, partitions)
            codec, block_size = _settings_of(target, codec)
        options = PrepareOptions(
            partitions, parse_codec(codec or "store"), block_size or BLOCK_BYTES, replicate,
            jobs or default_jobs(), force, skip_unreadable, quiet,
            None if files_from is None else read_list(files_from), update, origin, bucket,
        )  # fmt: skip
        report(prepare(src, target, options), dst, options, as_json)
    return 0


def _check_update(force: bool, block_size: int | None, partitions: int | None) -> None:
    """Raises UsageError for options that do not go with --update."""
    given = {"--force": force, "--block-size": block_size, "--partitions": partitions}
    for name, value in given.items():
        if value:
            raise UsageError(f"{name} does not go with --update")


def _settings_of(dst: Path, codec: str | None) -> tuple[str, int]:
    """Returns the codec (`codec` if given, else that of the dataset at `dst`) and the block size of
    a dataset to update."""
    from fanstore.dataset import MANIFEST_NAME, open_dataset

    with open_dataset(dst) as dataset:
        block_bytes = dataset.block_bytes
    try:
        noted = json.loads((dst / MANIFEST_NAME).read_bytes()).get("codec", "store")
    except (OSError, ValueError, AttributeError):
        noted = "store"
    return codec or str(noted), block_bytes


def report(summary: Summary, dst: Path | str, options: PrepareOptions, as_json: bool) -> None:
    """Prints the summary of a new dataset, as text or as JSON."""
    if as_json:
        click.echo(json.dumps(as_dict(summary, options), indent=2))
    else:
        show(summary, dst, options.quiet)


def as_dict(summary: Summary, options: PrepareOptions) -> dict[str, object]:
    """Returns the summary as data for programs."""
    from fanstore.errors import show_path

    left_out = [{"path": show_path(path), "reason": why} for path, why in summary.left_out]
    timing = {"elapsed_s": round(summary.elapsed_s, 3), "jobs": options.jobs}
    changed = {"changed": summary.changed} if options.update else {}
    return {**summary.manifest, "left_out": left_out, **changed, **timing}


def show(summary: Summary, dst: Path | str, quiet: bool) -> None:
    """Prints the summary as text. Entries that were left out are always printed, on stderr."""
    from fanstore.errors import show_path
    from fanstore.wording import counted, show_bytes

    for path, why in summary.left_out:
        click.echo(f"fanstore: left out: {show_path(path)}: {why}", err=True)
    if quiet:
        return
    if not summary.changed:
        click.echo(f"{dst}: is up to date")
        return
    made = summary.manifest
    rate_per_s = made["logical_bytes"] / max(summary.elapsed_s, 1e-9)
    click.echo(
        f"{dst}: {counted(made['files'], 'file')}, {show_bytes(made['logical_bytes'])} in "
        f"{counted(made['packs'], 'pack')} of {show_bytes(made['pack_bytes'])}, "
        f"{summary.elapsed_s:.1f} s, {show_bytes(rate_per_s)}/s"
    )
