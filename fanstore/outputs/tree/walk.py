"""Takes stock of an output tree: each file, link and directory in it, by the path at which it
belongs in the output directory."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

LINK_PREFIX = b"/proc/.fanstore/"  # in front of a link's target (csrc/client/paths/output_tree.h)
POINTER_PREFIX = b"/proc/.fanstore@"  # of a link that says which rank has a file
COUNTERPART_MODE = 0o5700  # of a directory that stands for one of the dataset
KNOWN_MODE = 0o5711  # the same, and all ranks know that there may be outputs in it
STAND_IN_MODE = 0o4700  # of a directory that stands for one of another rank
WHOSE = b".fanstore-of"  # in that, a link that says which rank that is
_STANDING_IN = frozenset({COUNTERPART_MODE, KNOWN_MODE, STAND_IN_MODE})


@dataclass
class Stock:
    """What is in the tree. Keys are paths below the output directory. files: the path in the tree
    and its stat(2). links: their targets and stat. directories: with those that stand for others,
    whose mode says so. names: of each inode number. pointers: the ranks that have files whose names
    are kept here. deep: what has a longer path than the kernel takes. unreadable: directories that
    cannot be listed, and why. lifted: the modes of directories that kept their owner out, and do
    not for now. hidden: there are some, which are to stay so as long as programs run. removed:
    somebody has removed a whole tree. FIFOs, sockets and devices are left out."""

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
        """Tells whether a program made the directory: else it stands for one of the dataset, or of
        another rank."""
        return stat.S_IMODE(self.directories[path].st_mode) not in _STANDING_IN

    def close(self) -> None:
        """Gives directories back the modes that their programs gave them."""
        for path, mode in self.lifted.items():
            with suppress(OSError):
                os.chmod(path, mode)
        self.lifted.clear()


def look(path: bytes) -> os.stat_result:
    """Does lstat(2) of something in the tree."""
    return os.lstat(path)


def take_stock(roots: Iterable[tuple[bytes, bytes]], lift: bool) -> Stock:
    """Walks the trees of all mounts. roots: the folder of each mount below the output directory,
    and its tree. lift: looks into directories that keep their owner out, too. What comes or goes
    meanwhile may be missed."""
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
    """Tells whether the mode of a directory keeps this user out; it is lifted where it may be."""
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if mode & 0o500 == 0o500 or os.geteuid() == 0:
        return False
    stock.hidden |= not lift
    if lift:
        os.chmod(path, mode | 0o500)
        stock.lifted[path] = mode
    return not lift


def _note(stock: Stock, shown: bytes, entry: os.DirEntry[bytes]) -> bool:
    """Notes an entry; returns whether it is a directory."""
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
        return False  # else it was removed meanwhile
    if stat.S_ISREG(found.st_mode):
        stock.files[shown] = (entry.path, found)
        stock.names.setdefault(found.st_ino, []).append(shown)
    elif stat.S_ISDIR(found.st_mode):
        stock.directories[shown] = found
        return True
    return False
