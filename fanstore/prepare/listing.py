"""Lists a directory to train from as it is: makes the index that `prepare` would make, with packs
that are planned but not written. The node daemons read each file from its original.

The listing is kept for the next job in the user's cache, one folder a directory. It is made again
if a directory changed, or one of a few files that are looked at. Other files that were edited in
place are found when the job opens them (csrc/common/original.h)."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import xxhash

from fanstore._native import ffi, lib
from fanstore.arrays import np
from fanstore.config import cache_folder
from fanstore.dataset import INDEX_NAME, Dataset, PackInfo, open_index, open_regular
from fanstore.errors import DatasetDamaged, FanstoreError, SourceProblems, UsageError
from fanstore.prepare.index import build_index
from fanstore.prepare.packfile import Stored
from fanstore.prepare.plan import PackPlan, assign_packs, plan_id
from fanstore.prepare.room import ArrayRoom
from fanstore.prepare.tree import SourceTree, scan_directory
from fanstore.trees import remove_tree
from fanstore.wording import counted

# How many files are compared with a kept listing; all directories are compared.
SAMPLES = 1000
_KEPT_S, _REPLACED_S = 30 * 86400, 86400
# In the folder of a directory: the name of the folder with the listing that later jobs take.
CURRENT = "current"
_BLOCK_BYTES = 1 << 20


def open_listing(
    directory: Path, show: Callable[[int], None], quiet: bool = False
) -> tuple[Dataset, str]:
    """Opens the listing of a directory: the kept listing if it still holds, otherwise a new one.
    Returns also a sentence for the user: how many files were listed, how long that took, and the
    entries that were left out; if `quiet`, only these, or "". show: called with the number of
    entries found so far.

    Raises UsageError if the directory cannot be listed, FanstoreError if the cache cannot be
    written."""
    started, source = time.monotonic(), directory.resolve()
    folder = _folder_of(source)
    dataset, how, left_out = _kept(folder, directory), "listed by an earlier job", ""
    if dataset is not None:
        os.utime(dataset.index_path)  # the time of its last use
    else:
        path, left_out = _list_anew(source, folder, show)
        how = f"listed in {time.monotonic() - started:.1f} s; the next job uses this listing"
        dataset = open_index(path, directory)
    files = counted(int(dataset.header.file_count), "file")
    said = [] if quiet else [f"{files}, {how}"]
    said += [left_out] if left_out else []
    return dataset, f"{source}: {'; '.join(said)}" if said else ""


def forget(index_path: str) -> None:
    """Has the next job list a directory anew. The listing stays for jobs that use it now."""
    with contextlib.suppress(OSError):  # of rank 0, which may be on another node
        os.unlink(Path(index_path).parent.parent / CURRENT)


def _folder_of(source: Path) -> Path:
    """Returns the folder of a directory's listing: by its path and its file, because another file
    system may be mounted at the path tomorrow."""
    found = source.stat()
    name = f"{os.fspath(source)}\0{found.st_dev}\0{found.st_ino}"
    digest = xxhash.xxh3_128_hexdigest(os.fsencode(name))
    return cache_folder() / "listings" / digest


def _kept(folder: Path, source: Path) -> Dataset | None:
    """Opens the current listing, if that still holds."""
    with contextlib.suppress(DatasetDamaged, UsageError, OSError, ValueError):
        dataset = open_index(folder / _current(folder) / INDEX_NAME, source, verify=True)
        if _is_as_listed(dataset):
            return dataset
        dataset.close()
    return None


def _current(folder: Path) -> str:
    """Returns the name of the current listing. Raises OSError or ValueError if there is none."""
    with open_regular(folder / CURRENT) as stream:
        return stream.read().decode()


def _is_as_listed(dataset: Dataset) -> bool:
    """Compares all directories, and some files spread over the listing, with what lies there."""
    kinds = dataset.records["mode"] & 0o170000
    files = np.flatnonzero(kinds == stat.S_IFREG)
    chosen = files[:: max(1, len(files) // SAMPLES)]
    ids = np.concatenate([np.flatnonzero(kinds == stat.S_IFDIR), chosen]).astype("<u8")
    return dataset.first_changed(ids) == len(ids)


def _list_anew(source: Path, folder: Path, show: Callable[[int], None]) -> tuple[Path, str]:
    """Makes a listing the current one; returns the path of its index, and a clause about the
    entries that were left out, or ""."""
    now_ns = time.time_ns()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _forget_old(folder.parent)
        with tempfile.TemporaryDirectory(prefix="new-", dir=folder) as scratch:
            tree, left_out = _tree_of(source, Path(scratch), show)
            try:
                name = _write(Path(scratch, INDEX_NAME), tree, now_ns)
            finally:
                tree.room.close()
            # Each listing stays where it was made: another job may open it by its path any time.
            version = folder / name
            version.mkdir(exist_ok=True)
            Path(scratch, INDEX_NAME).replace(version / INDEX_NAME)
            Path(scratch, CURRENT).write_text(name)
            Path(scratch, CURRENT).replace(folder / CURRENT)
        (folder / "source").write_bytes(os.fsencode(source) + b"\n")
    except OSError as error:
        if error.filename is None or not str(error.filename).startswith(str(folder)):
            raise
        raise FanstoreError(
            f"{error.filename}: {error.strerror}: the listing of {source} is kept there; name "
            "another place with XDG_CACHE_HOME"
        ) from error
    return version / INDEX_NAME, left_out


def _forget_old(listings: Path) -> None:
    """Removes listings that no job has used for a month, and those that were replaced a day ago."""
    now_s = time.time()
    for index in listings.glob(f"*/*/{INDEX_NAME}"):
        with contextlib.suppress(OSError):  # another job may do the same
            folder = index.parent.parent
            is_current = _current(folder) == index.parent.name
            if now_s - index.stat().st_mtime > (_KEPT_S if is_current else _REPLACED_S):
                remove_tree(os.fspath(folder if is_current else index.parent))


def _tree_of(source: Path, scratch: Path, show: Callable[[int], None]) -> tuple[SourceTree, str]:
    """Scans a directory; returns its tree without the entries that no program could read there
    either, and a clause about these."""
    root_fd = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        tree = scan_directory(root_fd, ArrayRoom(scratch), show)
    finally:
        os.close(root_fd)
    problems = dict(tree.problems())
    if 0 in problems:
        raise SourceProblems([(b"", problems[0])])
    # A directory that cannot be listed stays, without entries: its mode refuses programs, too.
    modes = tree.entries["mode"]
    dropped = {n: why for n, why in problems.items() if not stat.S_ISDIR(int(modes[n]))}
    if not dropped:
        return tree, ""
    first, why = next(iter(dropped.items()))
    clause = f"left out: {os.fsdecode(tree.path(first))} ({why})"
    if len(dropped) > 1:
        clause += f" and {len(dropped) - 1:,} more"
    return tree.filtered(tree.keep_mask(dropped)), clause


def _write(path: Path, tree: SourceTree, now_ns: int) -> str:
    """Writes the index; returns the dataset id."""
    plan = assign_packs(tree, None, ())
    stored, infos = _planned(tree, plan, now_ns)
    name = plan_id(tree, plan, _BLOCK_BYTES, "planned")
    return build_index(path, tree, stored, plan.packs, infos, name, _BLOCK_BYTES)


def _planned(tree: SourceTree, plan: PackPlan, now_ns: int) -> tuple[Stored, list[PackInfo]]:
    """Returns the place and the state of each entry, and the sizes of the packs."""
    stored = Stored(len(tree), tree.room)
    stored.is_planned = True
    ends = np.full(plan.pack_count, lib.FAN_PACK_HEADER_BYTES, np.uint64)
    lib.fan_planned_places(
        ffi.from_buffer("struct fan_scan_entry[]", tree.entries), len(tree),
        ffi.from_buffer("int64_t[]", plan.packs), ffi.from_buffer("int64_t[]", tree.first), now_ns,
        ffi.from_buffer("uint64_t[]", stored.offset),
        ffi.from_buffer("uint64_t[]", stored.checksum), ffi.from_buffer("uint64_t[]", ends),
    )  # fmt: skip
    for part in tree.pieces():
        regular = tree.kinds(part) == stat.S_IFREG
        stored.stored_size[part] = np.where(regular, tree.entries["size"][part], 0)
    counts, sizes = np.zeros(plan.pack_count, np.int64), np.zeros(plan.pack_count, np.int64)
    for ids in plan.parts():
        counts += np.bincount(plan.packs[ids], minlength=plan.pack_count)
        amounts = np.bincount(plan.packs[ids], tree.entries["size"][ids], plan.pack_count)
        sizes += amounts.astype(np.int64)
    return stored, [
        PackInfo(pack, int(ends[pack]), 0, int(counts[pack]), int(sizes[pack]), 0)
        for pack in range(plan.pack_count)
    ]
