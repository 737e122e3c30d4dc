"""Walks an output tree and lists each file, link and directory in it, by its path in the output
directory."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

LINK_PREFIX = b"/proc/.fanstore/"  # precedes a link's target (csrc/client/paths/output_tree.h)
POINTER_PREFIX = b"/proc/.fanstore@"  # precedes the rank in a pointer to a file of another rank
COUNTERPART_MODE = 0o5700  # the mode of a directory that stands for one of the dataset
KNOWN_MODE = 0o5711  # the mode of such a directory if all ranks look for outputs in it
STAND_IN_MODE = 0o4700  # the mode of a directory that stands for one of another rank
WHOSE = b".fanstore-of"  # a link in such a directory, which names the rank
_STANDING_IN = frozenset({COUNTERPART_MODE, KNOWN_MODE, STAND_IN_MODE})


@dataclass
class Stock:
    """The content of the trees. Keys are paths below the output directory. files: the path in the
    tree and the stat(2). links: targets and stat. directories: their stat; includes those that
    stand for others, recognised by their mode. names: by inode number. pointers: for files of other
    ranks whose names are kept here, the rank. deep: paths that are too long for the kernel.
    unreadable: directories that cannot be listed, and why. lifted: the original modes of
    directories that shut out their owner, and were opened for this walk. hidden: there are such
    directories, which were not opened because programs still run. removed: a whole tree no longer
    exists. FIFOs, sockets and devices are left out."""

    files: dict[bytes, tuple[bytes, os.stat_result]] = field(default_factory=dict)
    links: dict[bytes, tuple[bytes, os.stat_result]] = field(default_factory=dict)
    directories: dict[bytes, os.stat_result] = field(default_factory=dict)
    names: dict[int, list[bytes]] = field(default_factory=dict)
    pointers: dict[bytes, int] = field(default_factory=dict)
    deep: set[bytes] = field(default_factory=set)
    unreadable: dict[bytes, str] = field(default_factory=dict)
    lifted: dict[bytes, int] = field(default_factory=dict)
    hidden: bool = False
    removed: bool = False

    def is_made(self, path: bytes) -> bool:
        """Returns whether a program made the directory; otherwise it stands for a directory of the
        dataset, or of another rank."""
        return stat.S_IMODE(self.directories[path].st_mode) not in _STANDING_IN

    def close(self) -> None:
        """Gives the opened directories the modes back that programs gave them."""
        for path, mode in self.lifted.items():
            with suppress(OSError):
                os.chmod(path, mode)
        self.lifted.clear()


def look(path: bytes) -> os.stat_result:
    """Calls lstat(2) for a path in the tree."""
    return os.lstat(path)


def take_stock(roots: Iterable[tuple[bytes, bytes]], lift: bool) -> Stock:
    """Walks the trees of all mounts. roots: for each mount its folder below the output directory,
    and its tree. lift: whether to open directories that shut out their owner. May miss changes that
    are made during the walk."""
    stock = Stock()
    for folder, root in roots:
        waiting = [(folder, root)]
        while waiting:
            shown, path = waiting.pop()
            for entry in _entries(shown, path, stock, path == root, lift):
                below = shown + b"/" + entry.name if shown else entry.name
                if _note(stock, below, entry):
                    waiting.append((below, entry.path))
    return stock


def _entries(
    shown: bytes, path: bytes, stock: Stock, is_top: bool, lift: bool
) -> Iterator[os.DirEntry[bytes]]:
    try:
        if _keeps_out(path, stock, lift):
            return
        with os.scandir(path) as entries:
            yield from entries
    except OSError as error:
        if isinstance(error, FileNotFoundError):  # removed meanwhile
            stock.removed |= is_top
            return
        if error.errno == errno.ENAMETOOLONG:
            stock.deep.add(shown)
            return
        stock.unreadable[shown] = str(error.strerror)


def _keeps_out(path: bytes, stock: Stock, lift: bool) -> bool:
    """Returns whether the mode of a directory shuts out this user. With `lift`, changes the mode
    first."""
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & 0o500 == 0o500 or os.geteuid() == 0:
        return False
    stock.hidden |= not lift
    if lift:
        os.chmod(path, mode | 0o500)
        stock.lifted[path] = mode
    return not lift


def _note(stock: Stock, shown: bytes, entry: os.DirEntry[bytes]) -> bool:
    """Adds an entry to the stock. Returns whether it is a directory."""
    try:
        found = look(entry.path)
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(entry.path)
            if target.startswith(POINTER_PREFIX):
                stock.pointers[shown] = int(target.removeprefix(POINTER_PREFIX))
            elif entry.name != WHOSE:
                stock.links[shown] = (target.removeprefix(LINK_PREFIX), found)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            stock.deep.add(shown)
        return False  # after any other error: it was removed meanwhile
    if stat.S_ISREG(found.st_mode):
        stock.files[shown] = (entry.path, found)
        stock.names.setdefault(found.st_ino, []).append(shown)
    elif stat.S_ISDIR(found.st_mode):
        stock.directories[shown] = found
        return True
    return False
