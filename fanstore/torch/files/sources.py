"""The two sources of a dataset's files: a directory (or mount), and packs."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fanstore._native import ffi, lib
from fanstore.dataset import INDEX_NAME, open_dataset
from fanstore.reading.mapping import Dataset
from fanstore.reading.packs import mount_of
from fanstore.torch.batches.slots import Array

Walk = Iterator[tuple[str, list[str], list[str]]]
Room = Callable[[int], "Array | None"]  # returns rows of the given number of bytes, or None


def _listed(folder: str) -> tuple[list[str], list[str]]:
    """Returns the names of the directories in a directory, and the names of everything else in it;
    no names if it cannot be read."""
    folders: list[str] = []
    others: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            (folders if entry.is_dir() else others).append(entry.name)
    return folders, others


class FolderFiles:
    """The files of a directory or mount. top: its path. Can be pickled."""

    def __init__(self, top: str) -> None:
        self.top = top

    def files(self) -> list[str]:
        """Returns the paths of all regular files, relative to the top, in the order in which packs
        of the directory number them. Links are not followed. Raises OSError."""
        found: list[str] = []
        waiting = [""]
        for folder in waiting:  # the list grows meanwhile, so folders come level by level
            with os.scandir(os.path.join(self.top, folder)) as entries:
                for entry in sorted(entries, key=lambda entry: os.fsencode(entry.name)):
                    path = os.path.join(folder, entry.name)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        found.append(path)
        return found

    def walk(self, folder: str) -> Walk:
        """Yields what os.walk yields for `folder`, with paths relative to the top, and follows
        links. (Before Python 3.12 os.walk itself fails in a deep tree.)"""
        waiting = [os.path.join(self.top, folder)]
        while waiting:
            path = waiting.pop()
            folders, names = _listed(path)
            yield os.path.relpath(path, self.top), folders, names
            waiting += [os.path.join(path, each) for each in reversed(folders)]

    def folders(self) -> list[str]:
        """Returns the names of the directories directly below the top. Raises OSError."""
        with os.scandir(self.top) as entries:
            return [entry.name for entry in entries if entry.is_dir()]

    def opened(self, path: str) -> Any:
        """Returns the argument with which a loader opens a file: its path."""
        return path

    def content(self, path: str) -> bytearray:
        """Returns the content of a file. Raises OSError."""
        with open(os.path.join(self.top, path), "rb", buffering=0) as stream:
            return bytearray(stream.readall())

    def read_batch(self, paths: Sequence[str], room: Room) -> bool:
        """Reads files into the rows that `room` returns for the size of the first file. Returns
        False if `room` returns None, or if a file has another size. Raises OSError."""
        prefix = os.path.join(self.top, "")
        rows = room(os.stat(prefix + paths[0]).st_size)
        if rows is None:
            return False
        error = ffi.new("int32_t *")
        done = 0
        while done < len(paths):
            rest = paths[done:]
            names = os.fsencode(prefix + f"\0{prefix}".join(rest))
            to = ffi.from_buffer("char[]", rows[done:])
            done += lib.fan_read_rows(names, len(rest), to, rows.shape[1], error)
            if error[0] not in (0, errno.EINTR):
                raise OSError(error[0], os.strerror(error[0]), prefix + paths[done])
            if done < len(paths) and error[0] == 0:
                return False
        return True


class Packed:
    """The files of a packed dataset, read without a job. top: its directory. Can be pickled."""

    def __init__(self, top: str) -> None:
        self.top = top
        self._dataset = Dataset(top)

    def files(self) -> range:
        """Returns the numbers of all regular files."""
        return range(len(self._dataset))

    def path_of(self, number: int) -> str:
        """Returns the path of a file, relative to the top."""
        return self._dataset.path_of(number)

    def walk(self, folder: str) -> Walk:
        """Yields what os.walk yields for `folder`, with paths relative to the top, and follows
        links."""
        waiting = [folder]
        while waiting:
            folder = waiting.pop()
            inner = {name: f"{folder}/{name}" for name in self._dataset.listdir(folder)}
            below = {name: path for name, path in inner.items() if self._dataset.isdir(path)}
            yield folder, list(below), [name for name in inner if name not in below]
            waiting += reversed(below.values())

    def folders(self) -> list[str]:
        """Returns the names of the directories directly below the top."""
        return [name for name in self._dataset.listdir() if self._dataset.isdir(name)]

    def opened(self, path: str) -> Any:
        """Returns the argument with which a loader opens a file: a binary stream of its content.
        path: relative to the top. Raises OSError."""
        return self._dataset.open(os.path.relpath(path, self.top))

    def content(self, number: int) -> bytearray:
        """Returns the content of a file. Raises DatasetDamaged."""
        return bytearray(self._dataset.view(number))

    def read_batch(self, numbers: Sequence[int], room: Room) -> bool:
        """Reads files into the rows that `room` returns for the size of the first file. Returns
        False if `room` returns None, or if a file has another size. Raises DatasetDamaged."""
        sizes = {self._dataset.size_of(number) for number in numbers}
        rows = room(sizes.pop()) if len(sizes) == 1 else None
        if rows is not None:
            self._dataset.read_into(numbers, rows)
        return rows is not None


def source_of(root: str | os.PathLike[str]) -> FolderFiles | Packed:
    """Returns the files of `root`. A packed dataset is read from its packs or, in a job that mounts
    it, through the mount; anything else is read as a directory. Raises FanstoreError."""
    top = os.path.expanduser(os.fspath(root))
    if not os.path.isfile(os.path.join(top, INDEX_NAME)):
        return FolderFiles(top)
    with open_dataset(top) as index:
        prefix = mount_of(index)
    return Packed(top) if prefix is None else FolderFiles(prefix)
