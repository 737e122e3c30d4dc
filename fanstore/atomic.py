"""Creates files and directories that appear at their path only when they are complete, even if a
signal ends the work.

A new directory is filled inside a hidden one beside its final path, and renamed when complete. The
run holds a lock file in the hidden directory meanwhile, so that the next run can find the leftovers
of a killed run and remove them."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fanstore._native import check, lib
from fanstore.dataset import INDEX_NAME
from fanstore.errors import FanstoreError, UsageError
from fanstore.exit_codes import SIGNALLED
from fanstore.trees import remove_tree

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.05


class Ended(BaseException):
    """Raised by a signal that ends the work. It is raised only once; further signals are
    ignored."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Interrupted(FanstoreError):
    """A signal ended the work. The message says which files that left."""

    def __init__(self, ended: Ended, message: str) -> None:
        super().__init__(f"ended by {signal.Signals(ended.number).name}: {message}")
        self.exit_code = SIGNALLED + ended.number


class Ending:
    """A signal handler that raises Ended at the first signal, and ignores all others."""

    def __init__(self) -> None:
        self._is_over = False

    def ignore(self) -> None:
        """Makes this handler ignore every signal from now on."""
        self._is_over = True

    def __call__(self, number: int, _: object) -> None:
        if not self._is_over:
            self._is_over = True
            raise Ended(number)

    def dropped(self, dropped: Any) -> None:
        """Takes the place of sys.unraisablehook: sends the signal again if Ended came where Python
        drops exceptions, as in the callback of a weak reference during an import."""
        if not isinstance(dropped.exc_value, Ended):
            sys.__unraisablehook__(dropped)
            return
        self._is_over = False
        # Later, because the exception would be dropped here, too.
        threading.Timer(_AGAIN_S, os.kill, (os.getpid(), dropped.exc_value.number)).start()


@contextmanager
def ending_on_signals() -> Iterator[Ending]:
    """Makes SIGINT, SIGTERM and SIGHUP raise Ended within the block. Leaves a signal alone that is
    ignored (nohup) or has a handler. Does nothing outside the main thread."""
    ending = Ending()
    if threading.current_thread() is not threading.main_thread():
        yield ending
        return
    usual = (signal.SIG_DFL, signal.default_int_handler)
    taken = {n: signal.getsignal(n) for n in _ENDING if signal.getsignal(n) in usual}
    hook, sys.unraisablehook = sys.unraisablehook, ending.dropped
    try:
        for number in taken:
            signal.signal(number, ending)
        yield ending
    finally:
        sys.unraisablehook = hook
        for number, before in taken.items():
            signal.signal(number, before)


def check_free(path: Path, force: bool) -> None:
    """Raises UsageError if the path's directory does not exist, or if the path exists; with
    `force`, only if it exists and is not a regular file."""
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"{path}: there is no directory {parent}")
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path}: exists already (--force replaces it)")
    if os.path.lexists(path) and not path.is_file():
        raise UsageError(f"{path}: is no regular file, and is not replaced")


@contextmanager
def whole_file(path: Path, force: bool) -> Iterator[BinaryIO]:
    """Yields a file to write to. When the block ends, the file is durable and gets its name; after
    an exception, nothing of it is left. Raises UsageError as check_free does, OSError with the name
    of `path`, and Interrupted after a signal."""
    with ending_on_signals() as ending:
        try:
            check_free(path, force)
            # If `path` is a symbolic link, its target is replaced, not the link.
            final = path.resolve()
            part = final.with_name(f".{final.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
            try:
                with part.open("xb") as stream:
                    yield stream
                    stream.flush()
                    os.fsync(stream.fileno())
                _give_name(part, final, path, force, ending)
            finally:
                with suppress(FileNotFoundError):
                    part.unlink()
        except Ended as ended:
            state = "is as it was" if os.path.lexists(path) else "was not made"
            raise Interrupted(ended, f"{path} {state}, and nothing is left behind") from None
        except OSError as error:
            error.filename = os.fspath(path)
            raise


def _give_name(part: Path, final: Path, path: Path, force: bool, ending: Ending) -> None:
    ending.ignore()
    if force:
        part.replace(final)
        return
    rc = lib.fan_rename(os.fsencode(part), os.fsencode(final), 0)
    if rc < 0 and os.path.lexists(final):
        raise UsageError(f"{path}: exists already (--force replaces it)")
    check(rc, path)


Result = TypeVar("Result")

_PREFIX = ".fanstore-prepare-"
_LOCK_NAME = "lock"
_MADE_NAME = "made"
# The name of a file that contains the new directory's final name.
_FOR_NAME = "for"
# The file `NAME.done` in the scratch directory marks NAME in the new directory as complete.
DONE_SUFFIX = ".done"
# A hidden directory of this age without a lock file is a leftover: its run was killed before it
# made the lock file.
_UNLOCKED_AGE_S = 600
# A killed run's directory is kept for this long, so that a later run with the same destination can
# continue the work.
_KEPT_AGE_S = 7 * 86400
# Syncs run in several threads, because file systems commit several waiting syncs as one.
_SYNCS_AT_ONCE = 8


def _hold_lock(directory: Path, flags: int) -> int | None:
    """Locks a directory's lock file. Returns its descriptor, or None if another process holds the
    lock or has removed the file."""
    fd = os.open(directory / _LOCK_NAME, flags | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_nlink > 0:
            return fd
    except BlockingIOError:
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _is_leftover(directory: Path) -> bool:
    try:
        fd = _hold_lock(directory, 0)
    except FileNotFoundError:
        with suppress(OSError):
            return time.time() - directory.stat().st_mtime > _UNLOCKED_AGE_S
        return False
    except OSError:
        return False
    if fd is None:
        return False
    os.close(fd)
    return True


def remove_leftovers(parent: Path) -> None:
    """Removes the leftovers of killed runs from a directory, as far as permissions allow."""
    for found in parent.glob(_PREFIX + "*"):
        if not _is_waiting(found) and _is_leftover(found):
            remove_tree(found)


def _is_waiting(directory: Path) -> bool:
    """Returns whether the directory of a killed run must be kept, because a later run may continue
    its work."""
    with suppress(OSError):
        (directory / _FOR_NAME).stat()
        ages_s = [time.time() - p.stat().st_mtime for p in directory.glob("*" + DONE_SUFFIX)]
        return min(ages_s, default=_KEPT_AGE_S) < _KEPT_AGE_S
    return False


def is_within(path: Path, directory: Path) -> bool:
    """Returns whether `path` is `directory` or lies in it. Both are resolved paths."""
    return path == directory or directory in path.parents


def check_destination(
    path: Path, sources: Sequence[Path], force: bool, marker: str = INDEX_NAME,
    may_be_inside: bool = False,
) -> None:  # fmt: skip
    """Raises UsageError if the destination exists. With `force`, only if it is a symbolic link, or
    if it is not empty and contains no file `marker`, so that FanStore did not make it. Also raises
    if a source lies in it, or if it lies in a source, unless `may_be_inside`."""
    where = path.resolve()
    if not where.parent.is_dir():
        raise UsageError(f"{path}: there is no directory {where.parent}")
    for source in sources:
        origin = source.resolve()
        if is_within(where, origin) and (where == origin or not may_be_inside):
            raise UsageError(f"{path}: lies inside the source {source}")
        if is_within(origin, where):
            raise UsageError(f"{path}: the source {source} lies inside it")
    if not os.path.lexists(path):
        return
    if not force:
        raise UsageError(f"{path}: exists already (--force replaces it)")
    empty = path.is_dir() and not any(path.iterdir())
    if not (empty or (path / marker).is_file()) or path.is_symlink():
        raise UsageError(f"{path}: has no {marker} in it, and is not replaced")


def _sync(path: Path) -> None:
    """Waits until a file or a directory is on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Destination:
    """A new directory. Fill `directory`, which gets its final name by `commit`; put temporary files
    into `scratch`, the directory around it. `remove` removes everything but the final directory."""

    def __init__(self, path: Path, force: bool, ending: Ending, takes_up: bool = False) -> None:
        self.final = path
        self._takes_up = takes_up
        self._force = force
        self._ending = ending
        self._lock: int | None = None
        self.scratch: Path | None = None

    @property
    def directory(self) -> Path:
        """The path of the directory to fill, until `commit` gives it its final name."""
        assert self.scratch is not None
        return self.scratch / _MADE_NAME

    def make(self) -> None:
        """Creates the two directories, and removes the leftovers of killed runs beside them."""
        parent = self.final.resolve().parent
        if self._takes_up:
            self._take_up(parent)
        remove_leftovers(parent)
        while self._lock is None:
            self.scratch = parent / f"{_PREFIX}{os.getpid()}-{os.urandom(6).hex()}"
            try:
                self.scratch.mkdir()
            except OSError as error:  # not with the name that nobody has given
                raise OSError(error.errno, error.strerror, os.fspath(parent)) from error
            with suppress(FileNotFoundError):  # another run may have removed it as a leftover
                self._lock = _hold_lock(self.scratch, os.O_CREAT)
        assert self.scratch is not None
        (self.scratch / _FOR_NAME).write_bytes(os.fsencode(self.final.name))
        self.directory.mkdir(exist_ok=True)

    def _take_up(self, parent: Path) -> None:
        """Takes over the directory of a killed run with the same destination, if there is one, and
        removes other such directories."""
        for found in sorted(parent.glob(_PREFIX + "*")):
            with suppress(OSError):
                name = os.fsdecode((found / _FOR_NAME).read_bytes())
                if name != self.final.name or not _is_waiting(found):
                    continue
                if self._lock is not None:
                    if _is_leftover(found):
                        remove_tree(found)
                    continue
                self._lock = _hold_lock(found, 0)
                if self._lock is not None:
                    self.scratch = found

    def remove(self) -> None:
        """Removes everything that was not committed, and the directory that was replaced. May be
        called twice."""
        if self.scratch is not None:
            remove_tree(self.scratch)
            if self.scratch.exists():
                print(f"fanstore: could not remove {self.scratch}", file=sys.stderr)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, name: str, data: bytes | bytearray) -> None:
        """Writes `data` to the new file `name` in the directory."""
        with (self.directory / name).open("xb") as file:
            file.write(data)

    def sync(self) -> None:
        """Waits until all files in the directory are on the disk."""
        with ThreadPoolExecutor(_SYNCS_AT_ONCE) as pool:
            list(pool.map(_sync, self.directory.iterdir()))
        _sync(self.directory)

    def commit(self) -> None:
        """Renames the directory to its final name, and ignores signals from then on. Raises
        UsageError if something else has this name by now."""
        final = self.final.resolve()
        exchange = self._force and os.path.lexists(final)
        if self.scratch is not None:  # no later run may continue this work now
            (self.scratch / _FOR_NAME).unlink()
        self._ending.ignore()
        if exchange:
            with suppress(OSError):  # to move a directory, one needs write permission on it
                os.chmod(final, stat.S_IMODE(final.stat().st_mode) | stat.S_IWUSR)
        rc = lib.fan_rename(os.fsencode(self.directory), os.fsencode(final), int(exchange))
        if rc < 0 and os.path.lexists(final) and not self._force:
            raise UsageError(f"{self.final}: exists already")
        check(rc, self.final)
        _sync(final.parent)


def make_whole(
    path: Path, force: bool, work: Callable[[Destination], Result], takes_up: bool = False
) -> Result:
    """Calls `work`, which fills and commits a new directory `path`. Then removes everything else,
    also after errors and signals. Raises Interrupted after a signal. `takes_up`: start with the
    directory of a killed run with the same `path`, if there is one."""
    with ending_on_signals() as ending:
        destination = Destination(path, force, ending, takes_up)
        try:
            try:
                destination.make()
                return work(destination)
            finally:
                # Removes twice: if a signal interrupts the first call, no other can interrupt the
                # second.
                try:
                    destination.remove()
                except Ended:
                    destination.remove()
                    raise
        except Ended as ended:
            state = "is as it was" if os.path.lexists(path) else "was not made"
            raise Interrupted(ended, f"{path} {state}, and nothing is left behind") from None
        except OSError as error:
            # The error is of a write, for example because the disk is full.
            if error.filename is None:
                error.filename = os.fspath(path)
            raise
