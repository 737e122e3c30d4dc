"""Lists a directory, or the objects of a bucket, to train from as it is: makes the index that
`prepare` would make, with packs that are planned but not written. The node daemons read each file
from its origin.

The listing is kept for the next job in the user's cache, one folder an origin. It is made again
if a directory changed, or one of a few files that are looked at; files that were edited in place
are found when the job opens them (csrc/common/original.h). A bucket is always listed, because
nothing else tells whether it changed; only the index is kept."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from pathlib import Path

import xxhash

from fanstore._native import ffi, lib
from fanstore.arrays import np
from fanstore.buckets.address import is_address
from fanstore.config import cache_folder
from fanstore.dataset import INDEX_NAME, Dataset, PackInfo, open_index, open_regular
from fanstore.errors import DatasetDamaged, FanstoreError, UsageError
from fanstore.prepare.index import build_index
from fanstore.prepare.origin import BucketOrigin, DirectoryOrigin, Show
from fanstore.prepare.packfile import Stored
from fanstore.prepare.plan import PackPlan, assign_packs, plan_id
from fanstore.prepare.tree import SourceTree
from fanstore.trees import remove_tree
from fanstore.wording import counted

_KEPT_S, _REPLACED_S = 30 * 86400, 86400
# In the folder of an origin: the name of the folder with the listing that later jobs take.
CURRENT = "current"
_BLOCK_BYTES = 1 << 20

Origin = DirectoryOrigin | BucketOrigin


def open_listing(
    source: str | os.PathLike[str], show: Show, quiet: bool = False
) -> tuple[Dataset, str]:
    """Opens the listing of a directory or of an address: the kept listing if it still holds,
    otherwise a new one. Returns also a sentence for the user: how many files were listed, how long
    that took, and the entries that were left out; if `quiet`, only these, or "". show: called with
    the number of entries found so far.

    Raises UsageError if the origin cannot be listed, FanstoreError if the cache cannot be
    written."""
    path = os.fspath(source)
    origin: Origin = BucketOrigin(path) if is_address(path) else DirectoryOrigin(Path(path))
    started = time.monotonic()
    folder = cache_folder() / "listings" / xxhash.xxh3_128_hexdigest(os.fsencode(origin.identity))
    dataset = _kept(folder, path, origin, show)
    is_kept = dataset is not None
    if dataset is None:
        dataset = open_index(_list_anew(origin, folder, show), Path(path))
    else:
        os.utime(dataset.index_path)  # the time of its last use
    dataset.source = origin.text
    dataset.bucket = origin.bucket if isinstance(origin, BucketOrigin) else None
    files = counted(int(dataset.header.file_count), "file")
    said = [] if quiet else [f"{files}, {origin.how(is_kept, time.monotonic() - started)}"]
    said += [origin.left_out] if origin.left_out else []
    return dataset, f"{origin.text}: {'; '.join(said)}" if said else ""


def forget(index_path: str) -> None:
    """Has the next job list an origin anew. The listing stays for jobs that use it now."""
    with contextlib.suppress(OSError):  # of rank 0, which may be on another node
        os.unlink(Path(index_path).parent.parent / CURRENT)


def _kept(folder: Path, path: str, origin: Origin, show: Show) -> Dataset | None:
    """Opens the current listing, if that still holds and has the present version."""
    with contextlib.suppress(DatasetDamaged, UsageError, OSError, ValueError):
        dataset = open_index(folder / _current(folder) / INDEX_NAME, Path(path), verify=True)
        # Looking names up in an index of an older version takes longer.
        if dataset.header.version == lib.FAN_INDEX_VERSION and origin.holds(dataset, show):
            return dataset
        dataset.close()
    return None


def _current(folder: Path) -> str:
    """Returns the name of the current listing. Raises OSError or ValueError if there is none."""
    with open_regular(folder / CURRENT) as stream:
        return stream.read().decode()


def _list_anew(origin: Origin, folder: Path, show: Show) -> Path:
    """Makes a listing the current one; returns the path of its index."""
    now_ns = time.time_ns()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _forget_old(folder.parent)
        with tempfile.TemporaryDirectory(prefix="new-", dir=folder) as scratch:
            tree = origin.tree(Path(scratch), show)
            try:
                index = Path(scratch, INDEX_NAME)
                name = isinstance(origin, BucketOrigin) and origin.take_index(index)
                name = name or _write(index, origin, tree, now_ns)
            finally:
                tree.room.close()
            # Each listing stays where it was made: another job may open it by its path any time.
            version = folder / name
            version.mkdir(exist_ok=True)
            Path(scratch, INDEX_NAME).replace(version / INDEX_NAME)
            Path(scratch, CURRENT).write_text(name)
            Path(scratch, CURRENT).replace(folder / CURRENT)
        (folder / "source").write_bytes(os.fsencode(origin.text) + b"\n")
    except OSError as error:
        if error.filename is None or not str(error.filename).startswith(str(folder)):
            raise
        raise FanstoreError(
            f"{error.filename}: {error.strerror}: the listing of {origin.text} is kept there; name "
            "another place with XDG_CACHE_HOME"
        ) from error
    return version / INDEX_NAME


def _forget_old(listings: Path) -> None:
    """Removes listings that no job has used for a month, and those that were replaced a day ago."""
    now_s = time.time()
    for index in listings.glob(f"*/*/{INDEX_NAME}"):
        with contextlib.suppress(OSError):  # another job may do the same
            folder = index.parent.parent
            is_current = _current(folder) == index.parent.name
            if now_s - index.stat().st_mtime > (_KEPT_S if is_current else _REPLACED_S):
                remove_tree(os.fspath(folder if is_current else index.parent))


def _write(path: Path, origin: Origin, tree: SourceTree, now_ns: int) -> str:
    """Writes the index; returns the dataset id."""
    plan = assign_packs(tree, None, ())
    stored, infos = _planned(tree, plan, now_ns)
    if isinstance(origin, BucketOrigin):
        stored.checksum[:] = tree.entries["ctime_ns"]
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
