"""Resolves a client's path, through links, to an input, an output of any rank, or a path outside
the mounts."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Awaitable, Sequence
from typing import NamedTuple

from fanstore.outputs.model.entries import (
    NAME_MAX,
    Attr,
    Entry,
    failure,
    joined,
    keeper_of,
    refuse,
)
from fanstore.outputs.model.wire import Request
from fanstore.outputs.ranks.holds import Holds
from fanstore.outputs.ranks.trees import Seen, Trees
from fanstore.outputs.tree.inputs import Inputs
from fanstore.rank_calls.peers import Peers

LINKS_MAX = 40

PATH_MAX = 4096
PLACED = -1  # stands for a lost rank, whose files are looked up in the output directory

_SPECIAL = (b"", b".", b"..")


class Outside(Exception):
    """Raised when a path leads out of the outputs. text: the absolute path at which it
    continues."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.text = text


class Resolved(NamedTuple):
    """Where a path ends. mount, path: in normal form. input: its kind among the inputs. entry: the
    output there. keeper: the rank that keeps the name. pointed: the rank to which the name points.
    slash: whether the path ended in a slash. special: its last component, if that was not a name
    (only from `name`)."""

    mount: int
    path: bytes
    input: str = "missing"
    entry: Entry | None = None
    keeper: int = PLACED
    pointed: int | None = None
    slash: bool = False
    special: bytes | None = None

    @property
    def is_free(self) -> bool:
        """Whether neither an input nor an output is there."""
        return self.input == "missing" and self.entry is None

    @property
    def is_long(self) -> bool:
        """Whether its last name is longer than names may be."""
        return len(self.path.rpartition(b"/")[2]) > NAME_MAX

    @property
    def is_input(self) -> bool:
        """Whether the path is an input."""
        return self.input != "missing"

    @property
    def is_link(self) -> bool:
        """Whether the path is a symbolic link."""
        return self.input == "link" or (self.entry is not None and self.entry.is_link)

    @property
    def is_directory(self) -> bool:
        """Whether the path is a directory."""
        return self.input == "directory" or (self.entry is not None and self.entry.is_directory)

    @property
    def has(self) -> int:
        """The rank that has the output there."""
        assert self.entry is not None
        return self.entry.rank


class Walker:
    """Resolves paths for the programs of a rank. placed: for each mount, the directory of its
    outputs in the output directory."""

    def __init__(
        self, peers: Peers, inputs: Sequence[Inputs], trees: Trees, placed: Sequence[bytes],
        holds: Holds,
    ) -> None:  # fmt: skip
        self._peers = peers
        self._inputs = inputs
        self._trees = trees
        self._placed = placed
        self._holds = holds

    async def resolve(
        self, request: Request, follow: bool = True, create: bool = False
    ) -> Resolved:
        """Resolves the path of a request. Follows a link at its end if `follow` is set or a slash
        follows it. Only the last name may be missing. create: a file may be made there. Raises
        Outside, ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG; EISDIR if the path of a file to be made ends
        in a slash."""
        path, links = request.path, 0
        _check_length(path)
        at = Resolved(request.view, b"", "directory")
        left = path.split(b"/")[::-1]
        while left:
            names = _plain_end(left)
            if not names:
                at = self._special(at, left)
                continue
            makes_directory = create and len(left) > 1 and not any(left[:-1])
            too_long = len(names[0]) > NAME_MAX
            refuse(path, (makes_directory, errno.EISDIR), (too_long, errno.ENAMETOOLONG))
            used, found = await self._down(at, names)
            del left[len(left) - used :]
            last, slash = not any(left), bool(left)
            refuse(path, (create and last and slash, errno.EISDIR))
            if found.is_link and (follow or slash):
                links += 1
                refuse(path, (links > LINKS_MAX, errno.ELOOP))
                at, more = self._follow(found, left)
                left += more.split(b"/")[::-1]
            elif found.is_directory:
                at = found
            else:
                free = found.is_free
                refuse(path, (free and not last, errno.ENOENT), (slash and not free, errno.ENOTDIR))
                return found._replace(slash=slash)
        return at

    async def name(self, request: Request) -> Resolved:
        """Resolves the path of a name that is to be changed. Does not follow a link at its end,
        even if slashes follow it. A name that is too long counts as free, with `is_long`."""
        path = request.path
        _check_length(path)
        parent, _, last = path.rstrip(b"/").rpartition(b"/")
        slash = path.endswith(b"/")
        try:
            found = await self.resolve(request._replace(path=parent))
        except Outside as way:
            raise Outside(_joined(way.text, last + b"/" if slash else last)) from None
        check_directory(found)
        if last in _SPECIAL:
            return found._replace(special=last or b"/")
        if len(last) > NAME_MAX:
            return Resolved(found.mount, joined(found.path, last), slash=slash)
        return (await self._down(found, [last]))[1]._replace(slash=slash)

    def at_input(self, found: Resolved) -> Outside:
        """Returns the Outside for a path that ends at an input; does not raise it."""
        prefix = self._inputs[found.mount].prefixes[0]
        return Outside(prefix + b"/" + found.path if found.path else prefix)

    def _special(self, at: Resolved, left: list[bytes]) -> Resolved:
        """Handles ".", ".." or an empty component: removes it from `left` and returns the directory
        to which it leads."""
        if left.pop() != b"..":
            return at
        inputs = self._inputs[at.mount]
        if not at.path:
            raise _out(posixpath.dirname(inputs.prefixes[0]), left)
        parent = at.path.rpartition(b"/")[0]
        if inputs.kind(parent) == "missing":  # no input, so resolve it as an output
            left += parent.split(b"/")[::-1]
            return Resolved(at.mount, b"", "directory")
        return Resolved(at.mount, parent, "directory")

    def _follow(self, found: Resolved, left: list[bytes]) -> tuple[Resolved, bytes]:
        """Returns the directory from which the target of a link starts, and the target relative to
        it."""
        inputs = self._inputs[found.mount]
        target = found.entry.target if found.entry else inputs.target(found.path)
        if target.startswith(b"/"):
            inside = self._inside(target)
            if inside is None:
                raise _out(target, left)
            return inside
        parent = os.path.dirname(found.path)
        return Resolved(found.mount, b"", "directory"), joined(parent, target)

    def _inside(self, target: bytes) -> tuple[Resolved, bytes] | None:
        """If an absolute path begins with a mount's prefix, returns the mount's root and the rest
        of the path; otherwise None."""
        for mount, inputs in enumerate(self._inputs):
            for prefix in inputs.prefixes:
                if target == prefix or target.startswith(prefix + b"/"):
                    return Resolved(mount, b"", "directory"), target[len(prefix) + 1 :]
        return None

    async def _down(self, at: Resolved, names: list[bytes]) -> tuple[int, Resolved]:
        """Goes down from a directory by names, until it finds a link, something else than a
        directory, or nothing. Returns how many names it used, and what it found."""
        used = 0
        while at.is_input and used < len(names):
            path = joined(at.path, names[used])
            kind = self._inputs[at.mount].kind(path)
            if kind == "missing":
                break
            at, used = Resolved(at.mount, path, kind), used + 1
            if kind != "directory":
                return used, at
        if used == len(names):
            return used, at
        count, found = await self._down_outputs(at, names[used:])
        return used + count, found

    async def _down_outputs(self, at: Resolved, names: list[bytes]) -> tuple[int, Resolved]:
        keeper = at.has if at.entry else keeper_of(at.mount, at.path, self._peers.world_size)
        count, found = await self._ask_down(at, keeper, names)
        if found.entry is not None or found.pointed is None or found.keeper == PLACED:
            return count, found
        # The name was being made, moved or removed just now, or when its program was killed.
        async with self._holds.of([(found.keeper, (found.mount, found.path))]):
            return await self._ask_down(at, keeper, names)

    async def entry(self, directory: Resolved, name: bytes) -> Entry | None:
        """Returns the entry of a name in a directory, or None."""
        return (await self._down_outputs(directory, [name]))[1].entry

    async def _ask_down(
        self, at: Resolved, keeper: int, names: list[bytes]
    ) -> tuple[int, Resolved]:
        """Asks once for the names below a directory. If the rank to which a name points does not
        have the file, the result has that rank and no entry."""
        used, rank, path = 0, keeper, at.path
        pointed: int | None = None
        while True:
            turn, seen = await self._look(rank, at.mount, path, names[used:])
            if turn > 0:  # the asked rank has the directories on the way
                keeper, pointed = rank, None
            path = b"/".join([each for each in (path, *names[used : used + turn]) if each])
            used += turn
            if seen.rank is None or pointed is not None or seen.rank == rank:
                pointed = seen.rank if pointed is None else pointed
                here = joined(path, names[used])
                return used + 1, Resolved(at.mount, here, "missing", seen.entry, keeper, pointed)
            rank = pointed = seen.rank

    async def _look(
        self, rank: int, mount: int, directory: bytes, names: list[bytes]
    ) -> tuple[int, Seen]:
        if rank == self._trees.rank:
            return self._trees.look_down(rank, mount, directory, names)
        if rank == PLACED:
            return self._look_placed(mount, directory, names)
        try:
            found: tuple[int, Seen] = await self._peers.call(
                rank, "tree.look_down", mount, directory, names
            )
            return found
        except OSError:
            if not self._peers.is_lost(rank):
                raise
        return self._look_placed(mount, directory, names)

    def _look_placed(self, mount: int, directory: bytes, names: list[bytes]) -> tuple[int, Seen]:
        """Looks names up in place of a lost rank: in what this rank has or knows, and in the output
        directory. Raises EIO if the path is in neither."""
        known = self._trees.look(mount, joined(directory, names[0])).rank
        if known is not None and known >= 0 and not self._peers.is_lost(known):
            return 0, Seen(rank=known)
        path = b"/".join([each for each in (directory, *names) if each])
        own = self._trees.look(mount, path)
        if own.entry is not None:
            return len(names) - 1, own
        try:
            found = os.lstat(os.path.join(self._placed[mount], path))
        except OSError:
            raise failure(errno.EIO, path) from None
        return len(names) - 1, Seen(Entry(PLACED, found.st_ino, Attr.of(found)))


async def end_of(resolving: Awaitable[Resolved]) -> Resolved | Outside:
    """Returns the end of a path, or its Outside. Pass the results for two paths to `together`."""
    try:
        return await resolving
    except Outside as way:
        return way


def together(first: Resolved | Outside, second: Resolved | Outside) -> tuple[Resolved, Resolved]:
    """Returns the ends of two paths in one mount. Raises Outside if both lead out, EXDEV if only
    one does or they are in two mounts."""
    if isinstance(first, Outside) and isinstance(second, Outside):
        raise Outside(first.text + b"\0" + second.text)
    if isinstance(first, Outside) or isinstance(second, Outside) or first.mount != second.mount:
        raise failure(errno.EXDEV)
    return first, second


def check_directory(found: Resolved) -> None:
    """Raises ENOENT or ENOTDIR if it is not a directory."""
    refuse(found.path, (found.is_free, errno.ENOENT), (not found.is_directory, errno.ENOTDIR))


def _plain_end(left: list[bytes]) -> list[bytes]:
    """Returns the next names, up to a special component or, after the first name, one that is too
    long."""
    names: list[bytes] = []
    for name in reversed(left):
        if name in _SPECIAL or (names and len(name) > NAME_MAX):
            break
        names.append(name)
    return names


def _out(path: bytes, left: list[bytes]) -> Outside:
    """Returns the Outside for a path that leads out of its mount; does not raise it."""
    whole = _joined(path, b"/".join(left[::-1])) if left else path
    _check_length(whole)
    return Outside(whole)


def _joined(path: bytes, rest: bytes) -> bytes:
    return path + rest if path.endswith(b"/") else path + b"/" + rest


def _check_length(path: bytes) -> None:
    refuse(path, (len(path) >= PATH_MAX, errno.ENAMETOOLONG))
