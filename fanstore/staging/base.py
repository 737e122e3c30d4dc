"""The directory of one user on one node's local disk, in which every job keeps its files.

    <local_dir>/.fanstore-<user>/lock             held briefly while names are added or removed
                                 jobs/<job id>/   see fanstore.node.job_directory
                                 datasets/<id>/   see fanstore.staging.staged
                                 prefixes/<hash>  see fanstore.node.prefix
                                 trash-*          being removed

No mount prefix may lie in it (`is_within_any`), so that a sweep never mistakes a mount for a file
of FanStore, whatever the dataset's name.

Each job, dataset and prefix has a lock file that its users hold shared. If nobody holds it, it is a
leftover and a sweep removes it: a job that ends and a killed job are cleaned up in the same way.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
import time
from collections.abc import Callable, Iterator

from fanstore.errors import FanstoreError
from fanstore.staging import locks
from fanstore.trees import remove_tree

FOLDERS = ("jobs", "datasets", "prefixes")
_NAME = ".fanstore-"
_LOCK_WAIT_S = 60.0
_REMOVERS = 8  # several, because a file system may wait for its disk at each removal


def user_name() -> str:
    """Returns the user's login name: $USER, or if that is unset, the name of the uid."""
    name = os.environ.get("USER", "")
    if name and "/" not in name:
        return name
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def make_private(path: str) -> None:
    """Makes directory `path` (0700), or checks that it is ours and not a symbolic link. Raises
    FanstoreError."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:  # also ENOENT, if the parent is a directory such as /proc
        raise FanstoreError(f"{path}: cannot be made: {error.strerror}") from error
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise FanstoreError(f"{path}: is not a directory; remove it, or use another --local-dir")
    if found.st_uid != os.getuid():
        raise FanstoreError(
            f"{path}: belongs to another user (uid {found.st_uid}); use another --local-dir"
        )
    if found.st_mode & 0o077:
        os.chmod(path, 0o700)


def is_within_any(path: str) -> bool:
    """Returns whether a path is the FanStore directory of any user, in any local directory, or lies
    in one."""
    return any(part.startswith(_NAME) for part in path.split("/"))


def _remove_tree(top: str) -> None:
    """Removes a directory, with a thread for each folder two levels below it. Leaves entries that
    cannot be removed."""
    from concurrent.futures import ThreadPoolExecutor

    folders = [below for folder in _folders_in(top) for below in _folders_in(folder)]
    with ThreadPoolExecutor(_REMOVERS, "fanstore-remove") as pool:
        list(pool.map(remove_tree, folders))
    remove_tree(top)


def _folders_in(path: str) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return []


class StagingFolder:
    """The base of one user: the paths below it, and its lock. Creates nothing before `locked` is
    entered."""

    def __init__(self, local_dir: str) -> None:
        self.path = os.path.join(os.path.realpath(local_dir), _NAME + user_name())

    def folder(self, name: str) -> str:
        """Returns the path of one of FOLDERS."""
        return os.path.join(self.path, name)

    def _take(self) -> int | None:
        try:
            make_private(self.path)
            return locks.take(os.path.join(self.path, "lock"), exclusive=True)
        except FileNotFoundError:  # its last user removed the directory after it was made
            return None

    @contextlib.contextmanager
    def locked(self, check: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Makes the base if it is missing, and holds its lock within the block. Calls `check` while
        it waits, which may raise. Raises FanstoreError after a minute."""
        deadline = time.monotonic() + _LOCK_WAIT_S
        while (fd := self._take()) is None:
            check()
            if time.monotonic() > deadline:
                raise FanstoreError(
                    f"{self.path}/lock: held by another process for a minute; try again, or use "
                    "another --local-dir"
                )
            time.sleep(0.01)
        try:
            for name in FOLDERS:
                make_private(self.folder(name))
            yield
        finally:
            os.close(fd)

    def entries(self, folder: str) -> list[str]:
        """Returns the paths in one of FOLDERS, sorted."""
        try:
            names = os.listdir(self.folder(folder))
        except FileNotFoundError:
            return []
        return [os.path.join(self.folder(folder), name) for name in sorted(names)]

    def discard(self, path: str) -> None:
        """Renames the directory `path` to a name of the trash, which is quick; `empty_trash`
        removes it."""
        os.rename(path, os.path.join(self.path, f"trash-{os.urandom(8).hex()}"))

    def empty_trash(self) -> None:
        """Removes discarded directories. Needs no lock; entries that cannot be removed are left for
        the next call."""
        names: list[str] = []
        with contextlib.suppress(FileNotFoundError):
            names = os.listdir(self.path)
        for name in names:
            if name.startswith("trash-"):
                _remove_tree(os.path.join(self.path, name))

    def remove_if_empty(self) -> None:
        """Removes the base if it contains only empty folders. The caller holds the lock."""
        for name in FOLDERS:
            with contextlib.suppress(OSError):
                os.rmdir(self.folder(name))
        if os.listdir(self.path) == ["lock"]:
            os.unlink(os.path.join(self.path, "lock"))
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
