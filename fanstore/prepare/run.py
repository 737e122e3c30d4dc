"""Prepares a dataset: reads the source, writes packs and index, and gives the result its final
name."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore import __version__
from fanstore.arrays import np
from fanstore.atomic import Destination, check_destination, make_whole
from fanstore.dataset import INDEX_NAME, MANIFEST_NAME, PackInfo, is_dataset
from fanstore.errors import FanstoreError, SourceProblems, UsageError
from fanstore.prepare.codecs import Codec
from fanstore.prepare.index import build_index
from fanstore.prepare.journal import Journal, journal_key
from fanstore.prepare.packer import Packer
from fanstore.prepare.packfile import Footers
from fanstore.prepare.plan import assign_packs, plan_id
from fanstore.prepare.room import pieces
from fanstore.prepare.sending import BucketDestination
from fanstore.prepare.source import STDIN, DirectorySource, PackSource
from fanstore.prepare.update import Update, UpdatedDataset
from fanstore.progress import progress_of
from fanstore.wording import counted, show_bytes

if TYPE_CHECKING:
    from fanstore.prepare.packfile import Stored
    from fanstore.prepare.plan import PackPlan
    from fanstore.prepare.tree import SourceTree

BLOCK_BYTES = 1 << 20
_BLOCK_MIN_BYTES, _BLOCK_MAX_BYTES = 4096, 1 << 30

Problems = list[tuple[bytes, str]]


@dataclass(frozen=True)
class PrepareOptions:
    """Options of `prepare`. partitions: None for `default_partitions`; listed: the paths of a list,
    None for all entries; update: update the existing dataset (block_bytes must be its block
    size); origin: the source that the manifest names, "" for its path; bucket: where the dataset is
    sent to from the directory in which it is made, or None."""

    partitions: int | None = None
    codec: Codec = field(default_factory=lambda: Codec("store"))
    block_bytes: int = BLOCK_BYTES
    replicate: Sequence[str] = ()
    jobs: int = 1
    force: bool = False
    skip_unreadable: bool = False
    quiet: bool = False
    listed: list[bytes] | None = None
    update: bool = False
    origin: str = ""
    bucket: BucketDestination | None = None

    def check(self) -> None:
        """Raises UsageError for values out of range."""
        size = self.block_bytes
        if not _BLOCK_MIN_BYTES <= size <= _BLOCK_MAX_BYTES or size & (size - 1):
            raise UsageError("the block size is a power of two from 4 KiB to 1 GiB")


@dataclass(frozen=True)
class Summary:
    """The result of a run: the manifest, the entries that were left out, and whether the dataset
    changed (False if it was up to date)."""

    manifest: dict[str, Any]
    left_out: Problems
    elapsed_s: float
    changed: bool = True


def open_source(path: Path, options: PrepareOptions, scratch: Path) -> tuple[PackSource, Problems]:
    """Opens the source at `path`; returns it, and the entries left out so far. scratch: a directory
    for temporary files, such as a copy of a pipe's content."""
    from fanstore.prepare.listed import FileSource, ListedSource

    if path != STDIN and path.is_dir():
        if is_dataset(path):
            raise UsageError(
                f"{path}: a dataset already: `fanstore run` serves it, and `fanstore extract` "
                "makes a directory of it"
            )
        if options.listed is None:
            return DirectorySource(path, scratch), []
        listed = ListedSource(path, options.listed)
        return listed, listed.left_out
    if options.listed is not None:
        raise UsageError(f"{path}: a list of files needs a directory")
    from fanstore.prepare.archive import ArchiveSource, is_archive

    if path != STDIN and path.is_file() and not is_archive(path):
        file = FileSource(path)
        return file, file.left_out
    archive = ArchiveSource(path, scratch)
    try:
        _check_room(archive.tree, options.codec, path, scratch)
    except BaseException:
        archive.close()
        raise
    return archive, archive.left_out


def _check_room(tree: SourceTree, codec: Codec, path: Path, scratch: Path) -> None:
    """Raises UsageError if the content that an archive declares cannot fit on the disk even with
    the best compression: a small archive may declare any amount."""
    total_bytes, free_bytes = _content_bytes(tree), _free_bytes(scratch)
    if total_bytes // codec.ratio_max > free_bytes:
        raise UsageError(
            f"{path}: its members hold {show_bytes(total_bytes)}, and {show_bytes(free_bytes)} are "
            f"free in {scratch.parent}"
        )


def _content_bytes(tree: SourceTree, update: Update | None = None) -> int:
    """Returns how many bytes of content are to be packed: all content of the tree, or in an update
    the new and changed files."""
    total = 0
    for part in pieces(len(tree.content)):
        ids = tree.content[part]
        packed = ids if update is None else ids[update.is_new(ids)]
        total += sum(tree.entries["size"][packed].tolist())
    return total


def _free_bytes(directory: Path) -> int:
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


@contextmanager
def _naming_room(
    tree: SourceTree, codec: Codec, scratch: Path, update: Update | None
) -> Iterator[None]:
    """Raises FanstoreError, which states the needed space, if the disk fills up within the
    block."""
    free_bytes = _free_bytes(scratch)
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        smaller = "" if not codec.stores else ", or have it compressed (--codec zstd)"
        files = "files" if update is None else "new and changed files"
        raise FanstoreError(
            f"{scratch.parent}: {error.strerror}: the source has "
            f"{show_bytes(_content_bytes(tree, update))} in its {files}, and "
            f"{show_bytes(free_bytes)} were free; make room{smaller}"
        ) from None


def _leave_out_problems(source: PackSource, left_out: Problems, skip: bool) -> None:
    """Drops the entries that cannot be packed. Without `skip`, raises SourceProblems instead, for
    all problems that are known before any content is read."""
    found = dict(source.tree.problems())
    left_out += [(source.tree.path(number), why) for number, why in found.items()]
    if 0 in found:
        raise SourceProblems(left_out)
    if found:
        source.keep(source.tree.keep_mask(found))
    if left_out and not skip:
        closed = source.try_open()
        raise SourceProblems(left_out + [(source.tree.path(n), why) for n, why in closed.items()])


def default_target(path: Path) -> Path:
    """Returns the name of a dataset beside its source: imagenet.fan for the directory imagenet and
    the archive imagenet.tar.gz, table.csv.fan for a file. Raises UsageError if there is none."""
    from fanstore.prepare.archive import NAME_END

    source = Path(os.path.abspath(path))
    if path == STDIN or not source.name:
        raise UsageError(f"{path}: has no name from which DST would get one: give DST")
    name = source.name if source.is_dir() else NAME_END.sub("", source.name)
    return source.with_name(f"{name}.fan")


def prepare(path: Path, target: Path, options: PrepareOptions) -> Summary:
    """Packs the directory, archive or file at `path` (STDIN: standard input) into a new dataset
    directory `target`, or updates the existing one. If it is for a bucket, makes it beside
    `target`, sends it, and removes it.

    Raises UsageError, SourceProblems (every entry that cannot be packed), OSError, or Interrupted
    after SIGINT, SIGTERM and SIGHUP; nothing is left behind then.
    """
    origins = [] if path == STDIN else [path]
    return prepare_from(
        lambda scratch: open_source(path, options, scratch), origins, target, options
    )


def prepare_from(
    opener: Callable[[Path], tuple[PackSource, Problems]],
    origins: Sequence[Path],
    target: Path,
    options: PrepareOptions,
) -> Summary:
    """Like `prepare`, for any source. opener: gets a directory for temporary files, and returns the
    source and the entries that it left out; origins: the files or directories that the source
    reads, none for standard input."""
    start = time.monotonic()
    options.check()
    # With a list, the target may lie inside the source, because the list does not name the new
    # files.
    inside = options.listed is not None
    replaces = options.force or options.update
    check_destination(target, origins, replaces, may_be_inside=inside)

    def work(destination: Destination) -> Summary:
        assert destination.scratch is not None
        with ExitStack() as stack:
            base = stack.enter_context(closing(UpdatedDataset(target))) if options.update else None
            source, left_out = opener(destination.scratch)
            stack.enter_context(closing(source))
            _leave_out_problems(source, left_out, options.skip_unreadable)
            update = Update(source.tree, base) if base else None
            changed = update is None or not update.is_nothing()
            if changed:
                with _naming_room(source.tree, options.codec, destination.scratch, update):
                    made = _pack(source, options, destination, left_out, update)
            else:
                assert base is not None
                made = _manifest(source.tree, options, base.packs, base.dataset.dataset_id)
            manifest = {**_origin(origins, options.origin), **made}
            if changed:
                _commit(destination, manifest, base, options)
        return Summary(manifest, left_out, time.monotonic() - start, changed)

    return make_whole(target, replaces, work, takes_up=True)


def _commit(
    destination: Destination, manifest: dict[str, Any], base: UpdatedDataset | None,
    options: PrepareOptions,
) -> None:  # fmt: skip
    text = json.dumps(manifest, indent=2, ensure_ascii=True) + "\n"
    destination.write(MANIFEST_NAME, text.encode())
    if options.bucket is not None:
        with progress_of("sending", quiet=options.quiet) as progress:
            progress.expect(manifest["pack_bytes"])
            options.bucket.send(destination.directory, progress.advance)
        return
    destination.sync()
    if base is not None:
        base.check_current()
    destination.commit()


def _origin(origins: Sequence[Path], address: str) -> dict[str, Any]:
    """Returns the fields of the manifest that say where a dataset comes from."""
    paths = [address] if address else [str(origin.resolve()) for origin in origins] or ["-"]
    return {"tool": f"fanstore {__version__}", "source": paths if paths[1:] else paths[0]}


def _pack(
    source: PackSource, options: PrepareOptions, destination: Destination, left_out: Problems,
    update: Update | None,
) -> dict[str, Any]:  # fmt: skip
    """Writes packs and index, and returns the manifest. Adds entries that cannot be read to
    `left_out`."""
    tree = source.tree
    before = b""
    if update is None:
        plan = assign_packs(tree, options.partitions, options.replicate)
    else:
        plan = update.plan(options.partitions, options.replicate)
        before = update.base.dataset.plan_id
    name = plan_id(tree, plan, options.block_bytes, str(options.codec), before)
    directory = destination.directory
    journal = _journal(source, destination, name)
    if update is not None:
        update.base.take_over(plan.kept, directory)
    with (
        Packer(
            source, plan, name, options.codec, options.block_bytes, directory, journal
        ) as packer,
        progress_of("preparing", quiet=options.quiet) as progress,
    ):
        if update is not None:
            update.fill(packer.stored)
        sizes = tree.entries["size"]
        progress.expect(sum(int(sizes[ids].sum()) for ids in plan.parts()))
        if taken_up := packer.take_up():
            _tell_taken_up(len(taken_up), options.quiet)
        packer.run(options.jobs, progress.advance)
        failed = [(tree.path(number), why) for number, why in sorted(packer.failed.items())]
        if failed and not options.skip_unreadable:
            raise SourceProblems(failed)
        left_out += failed
        tree, stored, packs = _kept(tree, packer.stored, plan, packer.failed)
        infos = _finish_packs(packer, plan, Footers(tree, stored, packs, plan.catalogue), update)
    index = directory / INDEX_NAME
    dataset_id = build_index(index, tree, stored, packs, infos, name, options.block_bytes)
    return _manifest(tree, options, infos, dataset_id)


def _journal(source: PackSource, destination: Destination, name: bytes) -> Journal | None:
    """Removes files in the directory that an earlier run left for another scan or plan. Returns the
    journal of complete packs; None for a source that must be read in order."""
    assert destination.scratch is not None
    key = journal_key(source.tree, name)
    journal = Journal(destination.scratch, destination.directory, key)
    return journal if isinstance(source, DirectorySource) else None


def _tell_taken_up(count: int, quiet: bool) -> None:
    if not quiet:
        packs = counted(count, "pack")
        print(f"fanstore: {packs} of a run that was killed: taken up", file=sys.stderr)


def _kept(
    tree: SourceTree, stored: Stored, plan: PackPlan, failed: dict[int, str]
) -> tuple[SourceTree, Stored, np.ndarray[Any, np.dtype[np.int64]]]:
    """Returns the tree without the failed entries, and the arrays of the remaining ones."""
    packs = plan.packs
    if failed:
        keep = tree.keep_mask(failed)
        packs = tree.room.kept(packs, keep)
        tree, stored = tree.filtered(keep), stored.filtered(keep)
    stored.spread(tree.first)
    return tree, stored, packs


def _finish_packs(
    packer: Packer, plan: PackPlan, footers: Footers, update: Update | None
) -> list[PackInfo]:
    infos = {} if update is None else update.base.infos(plan.kept, footers)
    for number, pack in packer.packs.items():
        infos[number] = pack.finish(footers.footer(number))
    return [infos[number] for number in range(plan.pack_count)]


def _manifest(
    tree: SourceTree, options: PrepareOptions, infos: Sequence[PackInfo], dataset_id: str
) -> dict[str, Any]:
    """Returns the content of manifest.json. It does not depend on the time or speed of the run."""
    return {
        "dataset_id": dataset_id,
        "files": tree.count_of(stat.S_IFREG),
        "directories": tree.count_of(stat.S_IFDIR),
        "symbolic_links": tree.count_of(stat.S_IFLNK),
        "logical_bytes": sum(info.logical_bytes for info in infos),
        "pack_bytes": sum(info.file_bytes for info in infos),
        "packs": len(infos),
        "packs_everywhere": sum(info.everywhere for info in infos),
        "codec": str(options.codec),
        "block_bytes": options.block_bytes,
    }


def default_jobs() -> int:
    """Returns the default number of workers: the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))
