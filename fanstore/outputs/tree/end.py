"""Names the outputs that are not in the output directory when a job is over, and keeps them on the
node, under `unstaged`, which no sweep removes."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from fanstore.outputs.files.files import facts_of, is_written
from fanstore.outputs.files.placing import copy_object
from fanstore.outputs.model.entries import Attr, partial_paths
from fanstore.outputs.tree.placed import Placed, Source
from fanstore.outputs.tree.shared import Shared
from fanstore.outputs.tree.walk import take_stock

UNSTAGED = "unstaged"


def unstaged_of(job_directory: str) -> str:
    """Returns the folder for a job's unstaged outputs, next to the folder of all jobs."""
    base = os.path.dirname(os.path.dirname(job_directory))
    return os.path.join(base, UNSTAGED, os.path.basename(job_directory))


def keep_object(source: bytes, folder: str, relative: str) -> None:
    """Moves a file to its path in the folder of unstaged outputs. Raises OSError."""
    path = free_path(os.path.join(folder, relative))
    try:
        os.rename(source, path)
    except OSError:  # another file system, or a folder in which this user may not rename
        copy_object(source, os.fsencode(path), Attr.of(facts_of(source)), lambda _: None)
    found = os.stat(path)
    os.chmod(path, stat.S_IMODE(found.st_mode) | stat.S_IRUSR)


def free_path(path: str) -> str:
    """Returns `path`; if it exists, a similar path that is free. Creates its parents."""
    for number in range(1000):
        candidate = path if number == 0 else f"{path}.{number}"
        with suppress(FileExistsError, NotADirectoryError):
            os.makedirs(os.path.dirname(candidate), 0o700, exist_ok=True)
            if not os.path.lexists(candidate):
                return candidate
    raise FileExistsError(path)


@dataclass
class Kept:
    """The outputs that were kept on the node. files: paths below the output directory, each with
    the reason why it is not there. whole: whether all of them could be kept."""

    files: list[tuple[str, str]] = field(default_factory=list)
    whole: bool = True


def keep_the_rest(
    roots: list[tuple[bytes, bytes]],
    placed: Placed,
    shared: Shared | None,
    reason: Callable[[bytes], str],
    folder: str,
) -> Kept:
    """Moves files and links that are not placed to `folder`. Does not access placed files, because
    their file system may hang. Discards the record of placed files, unless something could not be
    kept."""
    stock, kept = take_stock(roots, lift=True), Kept()
    killed = shared.unfinished() if shared is not None else set()
    try:
        for name, (path, found) in sorted(stock.files.items()):
            if found.st_ino in killed:
                _keep_partial(kept, placed, name, path, found, reason, folder)
            elif not placed.has(name, found):
                shown = os.fsdecode(name)
                if is_written(path):  # only a part of it is written so far
                    shown = next(partial_paths(shown))
                _keep(kept, shown, path, reason(name), folder)
        for name, (target, found) in sorted(stock.links.items()):
            if not placed.has(name, found):
                why = reason(name)
                with suppress(OSError):
                    os.symlink(
                        target, os.fsencode(free_path(os.path.join(folder, os.fsdecode(name))))
                    )
                kept.files.append((os.fsdecode(name), why))
        for name in sorted(stock.deep):
            _keep_top(kept, roots, name, reason(name), folder)
        for name, why in stock.unreadable.items():
            kept.files.append((os.fsdecode(name), why))
            kept.whole = False
    finally:
        stock.close()
    if kept.whole:
        placed.discard()
    return kept


def _keep_top(
    kept: Kept, roots: list[tuple[bytes, bytes]], name: bytes, why: str, folder: str
) -> None:
    """Keeps a directory whose path is too long by moving the topmost directory that contains it."""
    for mount, root in roots:
        if mount and not name.startswith(mount + b"/"):
            continue
        top = name[len(mount) :].lstrip(b"/").partition(b"/")[0]
        shown = os.fsdecode(os.path.join(mount, top))
        source = os.path.join(root, top)
        if os.path.lexists(source):
            os.rename(source, free_path(os.path.join(folder, shown)))
        kept.files.append((f"{shown}/...", why))
        return


def _keep_partial(
    kept: Kept,
    placed: Placed,
    name: bytes,
    path: bytes,
    found: os.stat_result,
    reason: Callable[[bytes], str],
    folder: str,
) -> None:
    """Keeps a file of a killed program, under a partial name, unless it is placed."""
    source = Source.of(found)
    unchanged = name in placed.copies and placed.copies[name].source.has_bytes_of(source)
    there = any(placed.has(each, found) for each in placed.copies_of(found.st_ino))
    if unchanged or there or not found.st_size or not placed.header.keep_partial:
        return
    shown = next(partial_paths(os.fsdecode(name)))
    _keep(kept, shown, path, reason(os.fsencode(shown)), folder)


def _keep(kept: Kept, shown: str, path: bytes, why: str, folder: str) -> None:
    try:
        keep_object(path, folder, shown)
    except OSError as error:
        why += f"; and not kept: {error.strerror}"
        kept.whole = False
    kept.files.append((shown, why))
