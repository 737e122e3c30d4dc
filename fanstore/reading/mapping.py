"""A packed dataset as a mapping of paths to bytes."""

from __future__ import annotations

import errno
import io
import operator
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from fanstore.buckets.address import absolute, is_address
from fanstore.dataset import are_files
from fanstore.reading.packs import ContentStream, ServedContent, content_of, open_any
from fanstore.reading.tree import AnyPath, IndexTree, Paths, error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Key = Union[AnyPath, int]  # noqa: UP007 - not in an annotation
_BUFFER_BYTES = 1 << 16


class Dataset(Paths, Mapping[str, bytes]):
    """A dataset that `fanstore prepare` made, read-only: a mapping of the paths of its files,
    relative to its root, to their content.

    path: the directory of the dataset, or an address such as s3://bucket/prefix, of a dataset or of
    objects, which are listed now and are then its files. verify: also check the checksum of the
    whole index (that of its header is always checked); takes 0.1 s for a million files.

    A key is a path (str, bytes or PathLike; symbolic links in the dataset are followed), or the
    number of a file, from 0 on; negative numbers count from the end. Names that are not UTF-8
    become str as with os.fsdecode. Iterating yields the paths of regular files in the order of
    their numbers, which is the same in each process; it skips links and directories.

    All methods may be called in several threads, and after a fork. A pickle holds only path and
    verify, and unpickling opens the dataset again. In a job that mounts the same dataset (`fanstore
    run`), content is read through the mount.

    Raises FanstoreError if there is no dataset, DatasetDamaged if it is damaged. Content is
    compared with its checksum, and DatasetDamaged raised if they differ. After `close`, each
    method raises ValueError.
    """

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = False) -> None:
        self._path = absolute(os.fspath(path))
        self._verify = verify
        self._index = open_any(self._path, verify)
        self._tree = IndexTree(self._index)
        self._closed = False
        self._content = content_of(self._index)

    # ---- files by path and by number ----

    def __getitem__(self, key: Key) -> bytes:
        """Returns the content of a file. Raises KeyError for a path that is not a file, IndexError
        for a number out of range, TypeError for other keys."""
        return self._content.content(self._record(key))

    def view(self, key: Key) -> memoryview:
        """Returns the content of a file as a read-only memoryview of bytes. For a file that is
        stored uncompressed, this is the mapped pack itself, and stays valid when the dataset is
        closed. Raises as ds[key] does."""
        return self._content.view(self._record(key))

    def read(self, key: Key, offset: int = 0, size: int = -1) -> bytes:
        """Returns `size` bytes of a file from byte `offset` on, fewer at its end; -1: up to its
        end. The checksum is checked only if this is the whole file. Raises as ds[key] does, and
        ValueError if offset is negative."""
        record = self._record(key)
        length = self._index.record(record).logical_size
        if offset < 0:
            raise ValueError(f"offset is {offset}; allowed are 0 and more")
        size = length if size < 0 else size
        if offset == 0 and size >= length:
            return self._content.content(record)
        return self._content.part(record, offset, size)

    def read_into(self, numbers: Sequence[int], rows: NDArray[np.uint8]) -> None:
        """Reads the files with these numbers into `rows`, one file a row: a uint8 array of shape
        (files, bytes), so all files have one size. Raises ValueError if the shape does not fit the
        files, IndexError for a number out of range, and the errors of ds[key]."""
        from fanstore.arrays import np

        self._check_open()
        try:
            records = self._files[np.asarray(numbers, np.int64)]
        except IndexError:
            raise IndexError(f"numbers are {numbers}; there are {len(self._files)} files") from None
        sizes = self._index.records["logical_size"][records]
        if rows.shape != (len(records), *set(sizes.tolist())):
            found = f"{len(records)} files of {min(sizes)} to {max(sizes)} bytes"
            raise ValueError(f"rows are {rows.shape}, for {found}")
        self._content.read_into(records, rows)

    def size_of(self, number: int) -> int:
        """Returns the size of file `number`, in bytes. Raises IndexError."""
        return int(self._index.records["logical_size"][self._numbered(number)])

    def __len__(self) -> int:
        """Returns the number of regular files."""
        self._check_open()
        return len(self._files)

    def __iter__(self) -> Iterator[str]:
        self._check_open()
        return (self._name(int(record)) for record in self._files)

    def __contains__(self, key: object) -> bool:
        """Returns whether ds[key] is a regular file; False if `key` is not a path."""
        if not isinstance(key, (str, bytes, os.PathLike)):
            return False
        try:
            self._record(key)
        except KeyError:
            return False
        return True

    def path_of(self, number: int) -> str:
        """Returns the path of file `number`. Raises IndexError."""
        return self._name(self._numbered(number))

    @cached_property
    def _files(self) -> NDArray[np.int64]:
        from fanstore.arrays import np

        return np.flatnonzero(are_files(self._index.records))

    def _numbered(self, number: int) -> int:
        self._check_open()
        try:
            return int(self._files[number])
        except IndexError:
            raise IndexError(f"file {number} of {len(self._files)}") from None

    def _record(self, key: Key) -> int:
        if not isinstance(key, (str, bytes, os.PathLike)):
            return self._numbered(operator.index(key))
        try:
            record = self._found(key)
        except OSError:
            raise KeyError(key) from None
        if not stat.S_ISREG(self._tree.mode(record)):
            raise KeyError(key)
        return record

    def _name(self, record: int) -> str:
        return os.fsdecode(self._index.relpath(record))

    def open(self, key: Key, mode: str = "rb", **options: Any) -> Any:
        """Returns a file object that reads content on demand: binary with "rb", or text with "r"
        and the options of io.TextIOWrapper. Raises as ds[key] does, except FileNotFoundError for a
        missing path, IsADirectoryError for a directory, ValueError for another mode."""
        if mode not in ("r", "rb", "rt"):
            raise ValueError(f"mode is {mode!r}; a dataset is read-only: allowed are r, rt and rb")
        record = self._opened(key)
        raw = ContentStream(
            partial(self._part, record),
            self._index.record(record).logical_size,
            self._name(record),
        )
        stream = io.BufferedReader(raw, _BUFFER_BYTES)
        return stream if mode == "rb" else io.TextIOWrapper(stream, **options)

    def _part(self, record: int, offset: int, size: int) -> bytes:
        self._check_open()
        return self._content.part(record, offset, size)

    def _opened(self, key: Key) -> int:
        if not isinstance(key, (str, bytes, os.PathLike)):
            return self._numbered(operator.index(key))
        record = self._found(key)
        if self._tree.is_directory(record):
            raise error(errno.EISDIR, os.fsencode(key))
        return record

    # ---- the dataset as a whole ----

    @property
    def path(self) -> Path | str:
        """The directory of the dataset, absolute; an address as it was given."""
        return self._path if is_address(self._path) else Path(self._path)

    @property
    def is_mounted(self) -> bool:
        """Whether content is read through the mount of a FanStore job."""
        return type(self._content) is ServedContent

    def close(self) -> None:
        """Closes the dataset; may be called twice. Views stay valid."""
        if not self._closed:
            self._closed = True
            self.__dict__.pop("_files", None)
            self._content.close()
            self._index.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(f"the dataset {self._path} is closed")

    def __enter__(self) -> Dataset:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened_again, (self._path, self._verify)

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{len(self):,} files"
        return f"<fanstore.Dataset {self._path}: {state}>"

    # Datasets are equal only if they are the same object: Mapping would compare the content of all
    # files.
    __eq__ = object.__eq__
    __hash__ = object.__hash__


def _opened_again(path: str, verify: bool) -> Dataset:
    return Dataset(path, verify=verify)
