"""A dataset as a file system of fsspec. With it pandas, pyarrow, dask, zarr and others open URLs
such as fanstore:///data/imagenet.fan!/train/labels.parquet."""

from __future__ import annotations

import datetime
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fsspec.spec import AbstractFileSystem

from fanstore.buckets.address import absolute
from fanstore.reading.mapping import Dataset

_SCHEME = "fanstore://"
_MARK = "!"  # in a URL, ends the path of the dataset's directory
_FORM = "fanstore:///DIRECTORY/OF/DATASET!/PATH/IN/IT"


class FanstoreFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files of one dataset, read-only. Paths begin with "/", the dataset's root.

    dataset: its directory or address; a URL names it before the "!". Methods that change files
    raise OSError (EROFS); a missing path raises FileNotFoundError. Raises FanstoreError if there is
    no dataset, DatasetDamaged if the dataset or a file is damaged, ValueError for a URL without a
    dataset."""

    protocol = "fanstore"
    root_marker = "/"
    cachable = True

    def __init__(self, dataset: str | os.PathLike[str] = "", **options: Any) -> None:
        super().__init__(**options)
        if not os.fspath(dataset):
            raise ValueError(f"no dataset is named; the form of a URL is {_FORM}")
        self.dataset = Dataset(dataset)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        """Returns the path within the dataset, from a URL or a path."""
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        text = os.fspath(path)
        if text.startswith(_SCHEME):
            text = text[len(_SCHEME) :].partition(_MARK)[2]
        return "/" + text.strip("/")

    @staticmethod
    def _get_kwargs_from_urls(url: str) -> dict[str, Any]:
        """Returns the dataset that a URL names, as an argument for the constructor."""
        if not url.startswith(_SCHEME):
            return {}
        directory = url[len(_SCHEME) :].partition(_MARK)[0]
        return {"dataset": absolute(directory)} if directory else {}

    def unstrip_protocol(self, name: str) -> str:
        """Returns the URL of a path in this dataset."""
        return f"{_SCHEME}{self.dataset.path}{_MARK}{self._strip_protocol(name)}"

    @property
    def fsid(self) -> str:
        """A text that identifies this dataset."""
        return f"fanstore-{self.dataset.path}"

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Returns the name, the size in bytes, the type and the stat fields of a path. Raises
        FileNotFoundError."""
        path = self._strip_protocol(path)
        with _missing(path):
            return _described(path, self.dataset.stat(path[1:]))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Returns the entries of a directory, or the file at `path` alone. Links without a target
        have the type "link". Raises FileNotFoundError."""
        about = self.info(path)
        if about["type"] == "directory":
            prefix = about["name"].rstrip("/") + "/"
            names = self.dataset.listdir(prefix[1:])
            found = [self._entry(prefix + name) for name in names]
        else:
            found = [about]
        return found if detail else [each["name"] for each in found]

    def _entry(self, path: str) -> dict[str, Any]:
        try:
            return _described(path, self.dataset.stat(path[1:]))
        except OSError:
            return _described(path, self.dataset.stat(path[1:], follow=False))

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Returns the bytes of a file from `start` up to but not including `end`; negative values
        count from the file's end. Raises FileNotFoundError."""
        path = self._strip_protocol(path)
        size = self._size(path)
        first, last, _step = slice(start, end).indices(size)
        return self.dataset.read(path[1:], first, max(0, last - first))

    def _size(self, path: str) -> int:
        about = self.info(path)
        if about["type"] != "file":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return int(about["size"])

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        if mode != "rb":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        path = self._strip_protocol(path)
        with _missing(path):
            return self.dataset.open(path[1:])

    def modified(self, path: str) -> datetime.datetime:
        """Returns the time of a file's last change before it was packed, in UTC."""
        time_s = self.info(path)["mtime"]
        return datetime.datetime.fromtimestamp(time_s, tz=datetime.timezone.utc)

    def created(self, path: str) -> datetime.datetime:
        """Returns what `modified` returns: a dataset does not store when a file was created."""
        return self.modified(path)

    def _refuse(self, path: Any, *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    mkdir = makedirs = rmdir = touch = cp_file = _rm = rm_file = rm = mv = pipe_file = _refuse
    put_file = _refuse


@contextmanager
def _missing(path: str) -> Iterator[None]:
    """Raises FileNotFoundError in place of NotADirectoryError (a path below a file), as fsspec
    expects."""
    try:
        yield
    except NotADirectoryError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None


def _described(path: str, found: os.stat_result) -> dict[str, Any]:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "link")
    return {
        "name": path, "type": kind, "size": found.st_size if kind == "file" else 0,
        "mode": found.st_mode, "uid": found.st_uid, "gid": found.st_gid,
        "mtime": found.st_mtime, "ino": found.st_ino, "nlink": found.st_nlink,
    }  # fmt: skip
