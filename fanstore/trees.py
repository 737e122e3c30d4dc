"""Directory trees of any depth, as users and their programs make them: without recursion, and with
short paths, as the kernel takes none of more than 4,095 bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Directory:
    """A directory that a walk has come to. fd: a descriptor of it, until the walk goes on.
    directories and others: the names in it; a symbolic link is among the others."""

    fd: int
    directories: list[str]
    others: list[str]
    _way: list[str]

    @property
    def path(self) -> str:
        """The path of the directory, until the walk goes on."""
        return "/".join(self._way)


def _names(fd: int) -> tuple[list[str], list[str]]:
    """Returns the names of directories, and of all else, in a directory: none where it cannot be
    listed."""
    directories: list[str] = []
    others: list[str] = []
    with suppress(OSError), os.scandir(fd) as entries:
        for entry in entries:
            (directories if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
    return directories, others


def bottom_up(top: str) -> Iterator[Directory]:
    """Yields the directory `top` and those below it, each after the ones inside it. Links are not
    followed; a directory that cannot be opened is left out, and of `top` that is an OSError.

    One descriptor is open at a time. The walk comes back by "..", and ends where that is another
    directory than the one it came from: then somebody has moved things meanwhile."""
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
    except FileNotFoundError:  # ".." of a directory that was removed
        return
    finally:
        os.close(fd)


def remove_tree(top: Path | str) -> None:
    """Removes a tree as far as we may, however deep: each directory in it is moved to the top
    before it is emptied, so that neither paths nor open directories grow with the depth."""
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
                _make_writable(path)  # else it cannot be moved
                place = f"{top}/{moved}-{count}"
                os.rename(path, place)
                waiting.append(place)
        if directory != str(top):
            with suppress(OSError):
                os.rmdir(directory)
    with suppress(OSError):
        os.rmdir(top)


def _emptied(directory: str) -> list[tuple[str, bool]]:
    """What is to go from a directory: paths, and whether they are directories."""
    _make_writable(directory)
    with suppress(OSError), os.scandir(directory) as found:
        return [(entry.path, entry.is_dir(follow_symlinks=False)) for entry in found]
    return []


def _make_writable(directory: str) -> None:
    """Lets us change a directory; that of another user may let us already."""
    with suppress(OSError):
        os.chmod(directory, 0o700)
