"""Lets a program announce the files that it will read next. Needs neither NumPy nor FanStore's own
libraries, and does nothing outside a job."""

from __future__ import annotations

import array
import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fanstore.in_job.teller import Teller

if TYPE_CHECKING:
    from fanstore.in_job.told import EpochTold

__all__ = ["Files", "announce"]

READS_MAX = 1 << 27  # the most files in one announcement
WINDOW_MAX = 1 << 20
_OWN = 1 << 19  # numbers of loaders below this are fanstore/in_job's

_PathLike = str | bytes | os.PathLike[Any]

_lock = threading.Lock()
_loaders: dict[str, int] = {}  # name: the number of its loader
_listed: weakref.WeakValueDictionary[int, Files] = weakref.WeakValueDictionary()
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


class Files:
    """A list of files that is sent once; announcements then name its entries by number.

    paths: as the program will open them; the number of a path is its place, from 0 on. Relative
    paths are relative to the current working directory. Raises ValueError if one of them is not a
    path, or if there are more than 2**27.
    """

    def __init__(self, paths: Iterable[_PathLike]) -> None:
        self._paths, self._count = _joined(paths)
        # The job's directory and the process that sent the list there.
        self._told: tuple[str, int] | None = None
        with _lock:
            self._number = next(n for n in itertools.count(_OWN) if n not in _listed)
            _listed[self._number] = self

    def __len__(self) -> int:
        return self._count

    def tell(self, directory: str, message: EpochTold, parts: dict[str, Iterable[bytes]]) -> None:
        """Sends `message` and its `parts`, which refer to entries of this list, to the job in
        `directory`. Sends the list too, if that job does not have it yet. Raises OSError."""
        whom = directory, os.getpid()
        if self._told != whom and self._paths:
            parts = {**parts, "paths": [self._paths]}
        told: EpochTold = {**message, "dataset": self._number, "files_per_sample": 1}
        Teller(directory).tell(told, parts)
        self._told = whom


def announce(
    order: Iterable[_PathLike] | Iterable[int],
    *,
    of: Files | None = None,
    name: str = "",
    window: int | None = None,
) -> None:
    """Announces the files that this process and its children will read from now on, so that
    FanStore can fetch them ahead of the reads.

    order: the files in the order in which they will be opened: paths or, with `of`, numbers (from
    0) of entries of that list; a file that is read twice appears twice. name: distinguishes several
    loaders of this process. An announcement replaces the one before with the same name: announce
    once an epoch, or, if only the next files are known, those and the ones not opened yet. window:
    how far out of order opens may be, in files (for a loader with workers: batch size x workers x
    batches that each prepares ahead); default: 1,024 or an eighth of the order, whichever is less.
    An empty order ends the announcement.

    Does not wait for the node daemon. Does nothing outside a job of FanStore, in a job with
    `--order off`, or if the daemon is too busy to take the message at once. Raises ValueError for
    arguments of another type or out of range, and for more than 2**27 reads.
    """
    if not isinstance(name, str):
        raise ValueError(f"name is {name!r}; allowed is a text")
    if of is not None and not isinstance(of, Files):
        raise ValueError(
            f"of is a {type(of).__name__}; allowed is one fanstore.foresight.order.Files"
        )
    files = Files(order) if of is None else of  # type: ignore[arg-type]
    numbers = None if of is None else _numbers(order, len(of))
    count = len(files) if numbers is None else len(numbers)
    parts: dict[str, Iterable[bytes]] = {"indices": [numbers.tobytes()]} if numbers else {}
    message: EpochTold = {
        "loader": _loader(name), "workers": 0, "prefetch_factor": 1, "in_order": True,
        "sampler": {
            "kind": "announce", "samples": count, "batch": _window(window, count),
            "drop_last": False,
        },
    }  # fmt: skip
    directory = os.environ.get("FANSTORE_JOB_DIR")
    if directory and os.environ.get("FANSTORE_OFF", "0") == "0":
        with contextlib.suppress(OSError):  # there is no job, or it takes no messages
            files.tell(directory, message, parts)


def _joined(paths: Iterable[_PathLike]) -> tuple[bytes, int]:
    """Returns the absolute paths, with a NUL after each, and their number."""
    try:
        if isinstance(paths, (str, bytes)):
            raise TypeError("they are one path; allowed is a list of them")
        listed: list[Any] = list(paths)
        try:
            text = "\0".join(listed)
        except TypeError:  # some paths are not str
            listed = list(map(os.fsdecode, listed))
            text = "\0".join(listed)
    except TypeError as error:
        raise ValueError(f"paths: {error}") from None
    _check_count("paths", len(listed))
    if text.count("\0") > max(0, len(listed) - 1):
        raise ValueError("a path has a NUL in it; no file has such a name")
    if ("\0" + text).count("\0/") < len(listed):
        try:
            here = os.getcwd()
        except OSError as error:
            raise ValueError(f"a path is relative, and the directory: {error.strerror}") from None
        text = "\0".join(os.path.join(here, path) for path in listed)
    return os.fsencode(text + "\0") if listed else b"", len(listed)


def _numbers(order: Iterable[Any], count: int) -> array.array[int]:
    """Returns the numbers of entries of a list of `count` files as an array, the form in which they
    are sent."""
    try:
        numbers = array.array("q", order)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"order: {error}; allowed are numbers of files") from None
    _check_count("order", len(numbers))
    for number in (min(numbers), max(numbers)) if numbers else ():
        if not 0 <= number < count:
            raise ValueError(f"order has number {number}; allowed are 0 to {count - 1}")
    return numbers


def _check_count(what: str, count: int) -> None:
    if count > READS_MAX:
        raise ValueError(f"{what} has {count} entries; allowed are {READS_MAX}")


def _window(window: int | None, count: int) -> int:
    if window is None:
        return min(1024, max(1, count // 8))
    if type(window) is not int or not 1 <= window <= WINDOW_MAX:
        raise ValueError(f"window is {window!r}; allowed are 1 to {WINDOW_MAX}")
    return window


def _loader(name: str) -> int:
    with _lock:
        return _loaders.setdefault(name, _OWN + len(_loaders))
