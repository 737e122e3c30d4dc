"""Files in which a job stores, for later jobs, what it learnt about a dataset, and in which orders
each rank read it: beside the dataset if that can be written, otherwise in the user's cache. A
damaged file counts as missing."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import xxhash

from fanstore.arrays import np
from fanstore.config import cache_folder
from fanstore.errors import FanstoreError
from fanstore.foresight.order.history import begins_as

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Order = NDArray[np.uint32]


_MAGIC = b"FANKEPT1"
_SUM_BYTES = 8
_FOLDER = "learnt"
BYTES_MAX = 1 << 26


class KeptFiles:
    """The stored files of a dataset. directory: the dataset's. dataset_id: the dataset's id, which
    each file contains, because another dataset may later have this directory. warn: called with a
    line for the user."""

    def __init__(self, directory: str, dataset_id: str, warn: Callable[[str], None]) -> None:
        self.warn = warn
        self._id = bytes.fromhex(dataset_id)
        self._folders = [os.path.join(directory, _FOLDER)]
        with contextlib.suppress(FanstoreError):  # a user without a home directory
            self._folders.append(os.path.join(cache_folder(), _FOLDER, dataset_id))

    def read(self, name: str) -> list[bytes]:
        """Returns the contents of the files with that name: none, one or two."""
        paths = [os.path.join(folder, name) for folder in self._folders]
        return [content for content in map(self._content, paths) if content is not None]

    def _content(self, path: str) -> bytes | None:
        try:
            with open(path, "rb", opener=_open_at_once) as stream:
                whole = stream.read(BYTES_MAX + 1) or b""
        except OSError as error:
            if not isinstance(error, (FileNotFoundError, NotADirectoryError, PermissionError)):
                self.warn(f"{path}: {error.strerror}; it is not used")
            return None
        content = memoryview(whole)[len(_MAGIC) + _SUM_BYTES :]
        head = _MAGIC + xxhash.xxh3_64_digest(content)
        if len(whole) > BYTES_MAX or not whole.startswith(head):
            self.warn(f"{path} is damaged, and is not used; it may be removed")
            return None
        # Another id: when the file was written, another dataset was here.
        return bytes(content[len(self._id) :]) if content[: len(self._id)] == self._id else None

    def write(self, name: str, content: bytes) -> None:
        """Writes `content` to a file of that name, in the first folder that can be written;
        replaces an old one there. Warns if no folder can be written."""
        content = self._id + content
        whole = _MAGIC + xxhash.xxh3_64_digest(content) + content
        problems = []
        for folder in self._folders:
            try:
                _replace(folder, name, whole)
                return
            except OSError as error:
                problems.append(f"{folder}: {error.strerror}")
        self.warn(f"nothing of this job's order is kept for later ones: {'; '.join(problems)}")


def _open_at_once(path: str, flags: int) -> int:
    """Opens `path` without blocking: another user may have made a FIFO there, whose open waits for
    a writer."""
    return os.open(path, flags | os.O_NONBLOCK)


def _replace(folder: str, name: str, content: bytes) -> None:
    """Writes a file that other processes see only when it is complete. Creates the folder if it is
    missing."""
    try:
        os.mkdir(folder)
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            _open_to_the_same(fd, os.path.dirname(folder))
        finally:
            os.close(fd)
    except FileExistsError:
        pass
    except FileNotFoundError:
        os.makedirs(folder, mode=0o700, exist_ok=True)
    part = os.path.join(folder, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with open(part, "xb") as stream:
            _open_to_the_same(stream.fileno(), folder)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(part, os.path.join(folder, name))
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def _open_to_the_same(fd: int, folder: str) -> None:
    """Gives a file or directory of this user the permissions of its directory, whatever the umask,
    so that other members of a group can use it."""
    allowed = os.stat(folder).st_mode & 0o2777
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        allowed &= 0o666
    with contextlib.suppress(PermissionError):  # some file systems have no permissions
        os.fchmod(fd, allowed)


_ORDERS_MAX = 8
_OPENS_MAX, _OPENS_MIN = 1 << 22, 1 << 16  # for all ranks together, and at least for each
_HEAD = 64


class KeptOrders:
    """The kept orders of one rank for one dataset. files: the files that store them. records: the
    number of records of the dataset."""

    def __init__(self, files: KeptFiles, records: int, rank: int, world_size: int) -> None:
        self.files = files
        self.records = records
        self._name = f"order-{rank}-of-{world_size}"
        self._opens_max = _OPENS_MAX // world_size + _OPENS_MIN

    def load(self) -> list[Order]:
        """Returns the kept orders. Checks them, and leaves out invalid ones with a warning."""
        found: list[Order] = []
        for content in self.files.read(self._name):
            try:
                found += _decoded(content, self.records)
            except ValueError as error:
                self.files.warn(f"{self._name}: {error}; not used")
        return found[: 2 * _ORDERS_MAX]

    def add(self, orders: Sequence[Order]) -> None:
        """Stores orders of this job. They replace orders that begin in the same way, and the oldest
        if there are too many."""
        kept = [order[: self._opens_max] for order in orders]
        kept += [
            old for old in self.load() if not any(begins_as(old[:_HEAD], new) for new in kept)
        ]  # fmt: skip
        sums = np.cumsum([len(order) for order in kept])
        some = kept[: max(1, int((sums <= self._opens_max).sum()))][:_ORDERS_MAX]
        self.files.write(self._name, _encoded(some))


def _encoded(orders: Sequence[Order]) -> bytes:
    lengths = [len(orders), *map(len, orders)]
    rows = [np.array(lengths), *orders]
    return b"".join(row.astype("<u4").tobytes() for row in rows)


def _decoded(content: bytes, records: int) -> list[Any]:
    if not content or len(content) % 4:
        raise ValueError(f"{len(content)} bytes are no orders")
    words = np.frombuffer(content, "<u4").astype(np.uint32)
    count = int(words[0])
    lengths = words[1 : 1 + count].astype(np.int64)
    ids = words[1 + len(lengths) :]
    if len(lengths) < count or int(lengths.sum()) != len(ids):
        raise ValueError(f"{len(ids)} opens are not those of {count} orders")
    if len(ids) and int(ids.max()) >= records:
        raise ValueError(f"record {ids.max()} of {records}")
    return np.split(ids, np.cumsum(lengths)[:-1]) if count else []
