"""Making a dataset: scan, plan, pack, index, and only then the name."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fanstore import __version__
from fanstore.dataset import INDEX_NAME, MANIFEST_NAME, PackInfo
from fanstore.errors import SourceProblems, UsageError
from fanstore.prepare.archive import ArchiveSource
from fanstore.prepare.codecs import Codec
from fanstore.prepare.destination import Destination, check_destination
from fanstore.prepare.footer import Footers
from fanstore.prepare.index import build_index
from fanstore.prepare.listed import ListedSource, read_list
from fanstore.prepare.packer import Packer, Stored
from fanstore.prepare.plan import assign_packs, plan_id
from fanstore.prepare.source import DirectorySource, Source
from fanstore.prepare.tree import Tree

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Options:
    """How to pack. block_bytes is a power of two from 4 KiB to 1 GiB."""

    codec: Codec
    partitions: int | None = None
    replicate: Sequence[str] = ()
    block_bytes: int = BLOCK_BYTES
    jobs: int = 1
    force: bool = False
    skip_unreadable: bool = False


@dataclass
class Summary:
    """What was made. `left_out` holds (relpath, reason) of what --skip-unreadable passed over."""

    dataset_id: str
    counts: dict[str, int]
    packs: list[PackInfo]
    left_out: list[tuple[bytes, str]] = field(default_factory=list)


def open_source(path: Path, files_from: str | None, skip: bool) -> Source:
    """The source that `path` is: a directory, some files of one, or a tar archive."""
    if not path.exists():
        raise UsageError(f"{path}: no such file or directory")
    if files_from is not None:
        return ListedSource(path, read_list(files_from), skip)
    return DirectorySource(path) if path.is_dir() else ArchiveSource(path, skip)


def _leave_out(source: Source, skip: bool) -> list[tuple[bytes, str]]:
    """Takes what cannot be packed out of a source, or refuses all of it by name."""
    tree = source.tree
    problems = tree.problems()
    named = [(tree.paths[number], reason) for number, reason in problems]
    left_out: list[tuple[bytes, str]] = [*getattr(source, "left_out", []), *named]
    if left_out and not skip:
        raise SourceProblems(left_out)
    if any(number == 0 for number, _ in problems):
        raise SourceProblems(named)
    if problems:
        source.keep(tree.keep_mask(number for number, _ in problems))
    return left_out


def prepare(
    source: Source,
    destination: Path,
    options: Options,
    begin: Callable[[int], object] = lambda total_bytes: None,
    advance: Callable[[int], None] = lambda amount_bytes: None,
) -> Summary:
    """Packs a source into the new dataset `destination`, which appears whole or not at all.

    `begin` is told the logical bytes to come, `advance` those done. Raises UsageError,
    SourceProblems naming every entry that cannot be packed, OSError (disk full).
    """
    check_destination(destination, getattr(source, "path", None), options.force)
    left_out = _leave_out(source, options.skip_unreadable)
    tree = source.tree
    begin(int(tree.entries["size"][tree.content].sum()))
    plan = assign_packs(tree, options.partitions, options.replicate)
    name = plan_id(tree, plan, options.block_bytes, str(options.codec))
    with (
        Destination(destination, options.force) as made,
        Packer(source, plan, name, options.codec, options.block_bytes, made.directory) as packer,
    ):
        packer.run(options.jobs, lambda files, amount_bytes: advance(amount_bytes))
        stored, packs = packer.stored, plan.packs
        if packer.failed:
            failed = [(tree.paths[n], reason) for n, reason in sorted(packer.failed.items())]
            if not options.skip_unreadable:
                raise SourceProblems(failed)
            left_out += failed
            keep = tree.keep_mask(packer.failed)
            tree, stored, packs = tree.filtered(keep), stored.filtered(keep), packs[keep]
        stored.spread(tree.first)
        footers = Footers(tree, stored, packs)
        infos = [pack.finish(*footers.entries(pack.pack)) for pack in packer.packs]
        index, dataset_id = build_index(tree, stored, packs, infos, name, options.block_bytes)
        summary = Summary(dataset_id, _counts(tree, stored), infos, left_out)
        made.write(INDEX_NAME, index)
        made.write(MANIFEST_NAME, _manifest(source, options, summary))
        made.commit()
    return summary


def _counts(tree: Tree, stored: Stored) -> dict[str, int]:
    content = tree.content
    return {
        "files": int((tree.kinds == stat.S_IFREG).sum()),
        "directories": int((tree.kinds == stat.S_IFDIR).sum()),
        "symbolic_links": int((tree.kinds == stat.S_IFLNK).sum()),
        "logical_bytes": int(tree.entries["size"][content].sum()),
        "stored_bytes": int(stored.stored_size[content].sum()),
    }


def _manifest(source: Source, options: Options, summary: Summary) -> bytes:
    """The manifest, for people: where the data came from and what it became."""
    path = getattr(source, "path", None)
    manifest: dict[str, Any] = {
        "format": "FanStore dataset",
        "tool_version": __version__,
        "source": str(path.resolve()) if path is not None else None,
        "dataset_id": summary.dataset_id,
        "codec": str(options.codec),
        "block_bytes": options.block_bytes,
        "replicate": list(options.replicate),
        **summary.counts,
        "packs": len(summary.packs),
    }
    return (json.dumps(manifest, indent=2) + "\n").encode()
