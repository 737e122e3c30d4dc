"""Walks and removes directory trees of any depth, without recursion, and with short paths, because
the kernel accepts no path of more than 4,095 bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Directory:
    """A directory that a walk visits. fd: its descriptor, valid until the walk continues.
    directories and others: the names in it; symbolic links are among the others."""

    fd: int
    directories: list[str]
    others: list[str]
    _way: list[str]

    @property
    def path(self) -> str:
        """Returns the path of the directory; read it before the walk continues."""
        return "/".join(self._way)


def _names(fd: int) -> tuple[list[str], list[str]]:
    """Returns the names of the directories in a directory, and all other names in it; none if it
    cannot be listed."""
    directories: list[str] = []
    others: list[str] = []
    with suppress(OSError), os.scandir(fd) as entries:
        for entry in entries:
            (directories if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
    return directories, others


def bottom_up(top: str) -> Iterator[Directory]:
    """Yields the directory `top` and those below it, each after the ones inside it. Does not follow
    links. Leaves out a directory that cannot be opened; if it is `top`, raises OSError.

    One descriptor is open at a time. The walk goes up by "..", and ends early if ".." is not the
    directory that it came from, because something has moved the directory."""
    fd, way = os.open(top, _OPEN), [top]
    levels = [(os.fstat(fd), *_names(fd), 0)]
    try:
        while levels:
            found, directories, others, done = levels.pop()
            if not os.path.samestat(found, os.fstat(fd)):
                return
            if done < len(directories):
                levels.append((found, directories, others, done + 1))
                with suppress(OSError):
                    below = os.open(directories[done], _OPEN, dir_fd=fd)
                    os.close(fd)
                    fd = below
                    way.append(directories[done])
                    levels.append((os.fstat(fd), *_names(fd), 0))
                continue
            yield Directory(fd, directories, others, way)
            way.pop()
            if levels:
                up = os.open("..", _OPEN, dir_fd=fd)
                os.close(fd)
                fd = up
    except FileNotFoundError:  # the directory was removed, and so has no ".."
        return
    finally:
        os.close(fd)


def remove_tree(top: Path | str) -> None:
    """Removes a tree of any depth, as far as permissions allow. Moves each directory in it to the
    top before it empties the directory, so that neither paths nor the number of descriptors grow
    with the depth."""
    moved = os.urandom(6).hex()
    waiting = [str(top)]
    count = 0
    while waiting:
        directory = waiting.pop()
        for path, is_directory in _emptied(directory):
            with suppress(OSError):
                if not is_directory:
                    os.unlink(path)
                    continue
                count += 1
                _make_writable(path)  # otherwise it cannot be moved
                place = f"{top}/{moved}-{count}"
                os.rename(path, place)
                waiting.append(place)
        if directory != str(top):
            with suppress(OSError):
                os.rmdir(directory)
    with suppress(OSError):
        os.rmdir(top)


def _emptied(directory: str) -> list[tuple[str, bool]]:
    """Makes a directory writable and returns its entries: the path of each, and whether it is a
    directory."""
    _make_writable(directory)
    with suppress(OSError), os.scandir(directory) as found:
        return [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in found]
    return []


def _make_writable(directory: str) -> None:
    """Makes a directory writable for this user. Ignores errors: a directory of another user may be
    writable already."""
    with suppress(OSError):
        os.chmod(directory, 0o700)
