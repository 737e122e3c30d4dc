"""The places from which a job reads files as they are: a directory, or the objects of a bucket.
Here they are listed; csrc/node/storage/origin.h reads them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import xxhash

from fanstore.arrays import np
from fanstore.buckets.address import why_no_path
from fanstore.buckets.bucket import ListedObject, object_state
from fanstore.buckets.clouds import open_bucket
from fanstore.buckets.keys import list_objects
from fanstore.buckets.patience import ObjectChanged
from fanstore.dataset import INDEX_NAME, Dataset, open_index
from fanstore.errors import DatasetDamaged, SourceProblems, UsageError, show_path
from fanstore.prepare.room import ArrayRoom
from fanstore.prepare.tree import Item, SourceTree, add_parents, scan_directory, tree_of
from fanstore.wording import counted

# How many files of a directory are compared with a kept listing; all directories are compared.
SAMPLES = 1000

Show = Callable[[int], None]


class DirectoryOrigin:
    """A directory whose files a job reads as they are. text: its name for users. left_out: a clause
    about the entries that were left out, or ""."""

    def __init__(self, path: Path) -> None:
        self._source = path.resolve()
        self.text = os.fspath(self._source)
        self.left_out = ""

    @property
    def identity(self) -> str:
        """A text that no other origin has, under a hash of which the listing is kept: the path and
        the file, because another file system may be mounted at the path tomorrow."""
        found = self._source.stat()
        return f"{self.text}\0{found.st_dev}\0{found.st_ino}"

    def holds(self, dataset: Dataset, show: Show) -> bool:
        """Returns whether a kept listing still holds: compares all directories, and some files
        spread over the listing, with what lies there. show: called with the number of entries found
        so far."""
        kinds = dataset.records["mode"] & 0o170000
        files = np.flatnonzero(kinds == stat.S_IFREG)
        chosen = files[:: max(1, len(files) // SAMPLES)]
        ids = np.concatenate([np.flatnonzero(kinds == stat.S_IFDIR), chosen]).astype("<u8")
        return dataset.first_changed(ids) == len(ids)

    def tree(self, scratch: Path, show: Show) -> SourceTree:
        """Lists all files, except the entries that no program could read there either. scratch: a
        directory for large arrays."""
        root_fd = os.open(self._source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
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
        self.left_out = _left_out((tree.path(n), why) for n, why in dropped.items())
        return tree.filtered(tree.keep_mask(dropped)) if dropped else tree

    def how(self, is_kept: bool, took_s: float) -> str:
        """Returns a clause that says how it was listed."""
        if is_kept:
            return "listed by an earlier job"
        return f"listed in {took_s:.1f} s; the next job uses this listing"


class BucketOrigin:
    """The objects below an address, listed as a DirectoryOrigin is. A directory is there if a key
    leads through it. The states of objects are in the place of the times of change (ctime_ns). The
    state of the root is a hash of the address, all keys and states, by which a kept listing is
    compared."""

    def __init__(self, text: str) -> None:
        self.bucket = open_bucket(text)
        self._tree: SourceTree | None = None
        self._index: ListedObject | None = None  # of a dataset
        self.text = str(self.bucket.address)
        self.left_out = ""

    @property
    def identity(self) -> str:
        return f"{self.text}\0{self.bucket.endpoint}"

    def holds(self, dataset: Dataset, show: Show) -> bool:
        state = self._listed(show).entries["ctime_ns"][0]
        is_index = dataset.index_path.parent.name == self._index_name()
        return is_index or bool(dataset.records["checksum"][0] == state)

    def tree(self, scratch: Path, show: Show) -> SourceTree:
        return self._listed(show)

    def take_index(self, path: Path) -> str:
        """If this is a dataset after all, copies its index and returns a name for it; else ""."""
        if self._index is not None:
            with path.open("wb") as stream:
                stream.writelines(self.bucket.pieces(INDEX_NAME, self._index.size))
            try:
                open_index(path, path.parent, verify=True).close()
            except DatasetDamaged as error:
                raise UsageError(f"{self.text} is no dataset: {error}") from error
        return self._index_name()

    def _index_name(self) -> str:
        found = self._index
        return "" if found is None else f"{object_state(found.etag, found.size):x}"

    def how(self, is_kept: bool, took_s: float) -> str:
        requests = counted(self.bucket.counts["requests"], "request")
        return f"listed in {took_s:.1f} s with {requests}"

    def _listed(self, show: Show) -> SourceTree:
        """Lists the objects once. Raises UsageError if there are none."""
        if self._tree is None:
            objects = self._index_alone() or list_objects(self.bucket, show)
            items, dropped = _items(objects, self.identity)
            self.left_out = _left_out(dropped)
            if len(items) == 1:
                left_out = f" ({self.left_out})" if dropped else ""
                raise UsageError(f"{self.text}: there are no objects below this address{left_out}")
            self._index = next((each for each in objects if each.key == INDEX_NAME), None)
            self._tree = tree_of(items)
        return self._tree

    def _index_alone(self) -> list[ListedObject]:
        """Returns the index of a dataset on a web server, which may have no listing; else []."""
        if not self.bucket.address.server:
            return []
        try:
            head = self.bucket.send("HEAD", INDEX_NAME).headers
        except ObjectChanged:
            return []
        version = head.get("ETag") or head.get("Last-Modified", "")
        return [ListedObject(INDEX_NAME, int(head["Content-Length"]), version, 0)]


def _items(
    objects: list[ListedObject], identity: str
) -> tuple[dict[bytes, Item], list[tuple[bytes, str]]]:
    """Returns the files and directories that the keys name, and each key that was left out with
    the reason. identity: of the origin, because ETags tell versions of one object apart, not
    objects of two buckets."""
    uid, gid, digest = os.getuid(), os.getgid(), xxhash.xxh3_64(identity.encode())
    newest = Item(0, 0, max((each.mtime_ns for each in objects), default=0), uid, gid)
    items: dict[bytes, Item] = {}
    dropped: list[tuple[bytes, str]] = []
    for each in reversed(objects):  # so a/b comes before a
        path = each.key.encode("utf-8", "surrogateescape")
        why = why_no_path(each.key)
        if why or path in items:
            dropped.append((path, why or "is the name of a directory, too"))
            continue
        add_parents(items, path, newest)
        state = object_state(each.etag, each.size)
        items[path] = Item(stat.S_IFREG | 0o644, each.size, each.mtime_ns, uid, gid, ctime_ns=state)
        digest.update(b"%d %d %d %d %s\0" % (state, each.mtime_ns, uid, gid, path))
    items[b""] = replace(items.get(b"", newest), ctime_ns=digest.intdigest() >> 2)
    return items, dropped[::-1]


def _left_out(dropped: Iterable[tuple[bytes, str]]) -> str:
    """Returns a clause that names the first entry that was left out, and counts the others."""
    named = list(dropped)
    if not named:
        return ""
    path, why = named[0]
    more = f" and {len(named) - 1:,} more" if len(named) > 1 else ""
    return f"left out: {show_path(path)} ({why}){more}"
