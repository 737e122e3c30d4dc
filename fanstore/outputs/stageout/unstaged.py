"""Says what is not in the output directory, and keeps it on the node, under `unstaged`, which no
sweep removes."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fanstore.outputs.model.entries import Attr, Place
from fanstore.outputs.model.partial import partial_paths
from fanstore.outputs.objects.files import facts_of
from fanstore.outputs.stageout.copying import copy_object
from fanstore.outputs.stageout.journal import Ledger, Lone
from fanstore.outputs.stageout.placing import OutputDirectory

UNSTAGED = "unstaged"
NAMELESS = Place(0, b"", b"")  # of an object whose name nobody knows any more


class Left(NamedTuple):
    """One thing that is not in the output directory: a file, be it partial, or what has no
    object."""

    name: Place
    object_id: int = 0
    lone: Lone | None = None
    partial: bool = False


def left_of(
    ledger: Ledger, lone: Iterable[tuple[Place, Lone]], size_of: Callable[[int], int | None]
) -> list[Left]:
    """Returns all that is left to be done, in the order in which it has to be done. size_of: says
    the size of an object's file in bytes; None: there is none, and nothing to be done."""
    left = [Left(name, lone=each) for name, each in sorted(lone)]
    left += [Left(ledger.named[n].name, n) for n in ledger.waiting if size_of(n) is not None]
    left += [Left(name, n, partial=True) for n, name in ledger.drafts.items() if size_of(n)]
    return left


def keep(
    left: Iterable[tuple[Left, str]],
    folder: str,
    directory: OutputDirectory,
    path_of: Callable[[int], bytes],
) -> tuple[list[tuple[Left, str, str]], bool]:
    """Moves what is left, for these reasons, to a folder. Returns with each its path below the
    output directory and the reason, and whether all objects are kept: a link or directory is no
    loss."""
    told, kept_all = [], True
    for each, reason in left:
        shown = directory.shown(each.name)
        if each.name == NAMELESS:
            shown = f"nameless-{each.object_id:x}"
        if each.partial:
            shown = next(partial_paths(shown))
        try:
            if each.lone is None:
                keep_object(path_of(each.object_id), folder, shown)
            elif not each.lone.is_directory:
                os.symlink(each.lone.target, os.fsencode(free_path(os.path.join(folder, shown))))
        except OSError as error:
            if each.lone is None:
                reason += f"; and not kept: {error.strerror}"
                kept_all = False
        told.append((each, shown, reason))
    return told, kept_all


def unstaged_of(job_directory: str) -> str:
    """Returns the folder in which a job keeps them, beside the folder of all jobs."""
    base = os.path.dirname(os.path.dirname(job_directory))
    return os.path.join(base, UNSTAGED, os.path.basename(job_directory))


def keep_object(source: bytes, folder: str, relative: str) -> None:
    path = free_path(os.path.join(folder, relative))
    try:
        os.rename(source, path)
    except OSError:  # another file system, or a folder that others may not rename from
        copy_object(source, os.fsencode(path), Attr.of(facts_of(source)), lambda _: None)
    found = os.stat(path)
    os.chmod(path, stat.S_IMODE(found.st_mode) | stat.S_IRUSR)


def free_path(path: str) -> str:
    """Returns the path, with its directories made, or one like it where something is in the way."""
    for number in range(1000):
        candidate = path if number == 0 else f"{path}.{number}"
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            os.makedirs(os.path.dirname(candidate), 0o700, exist_ok=True)
            if not os.path.lexists(candidate):
                return candidate
    raise FileExistsError(path)
