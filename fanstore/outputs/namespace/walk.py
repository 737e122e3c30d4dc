"""Resolves a client's path: to an input, an output, through links, or out of the mounts."""

from __future__ import annotations

import contextlib
import errno
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fanstore.outputs.drafts.drafts import Drafts
from fanstore.outputs.model.entries import Entry, Place, failure, split
from fanstore.outputs.model.interfaces import Inputs
from fanstore.outputs.objects.versions import Versions
from fanstore.outputs.ranks.gate import Gate
from fanstore.outputs.ranks.home_client import HomeClient

LINKS_MAX = 40
NAME_MAX = 255
PATH_MAX = 4096

_SPECIAL = (b"", b".", b"..")


@dataclass(frozen=True)
class Resolved:
    """The end of a path. mount, path: where, in normal form. input: what it is among the inputs.
    entry: what everybody sees there; own: the object that the asking process is writing under that
    name, mine: that as an entry. slash: the path had one at its end. special: its last component,
    if that was no name (Walker.name only). elsewhere: the absolute path to go on with."""

    mount: int
    path: bytes
    input: str = "missing"
    entry: Entry | None = None
    own: int | None = None
    mine: Entry | None = None
    slash: bool = False
    special: bytes | None = None
    elsewhere: bytes | None = None

    @property
    def place(self) -> Place:
        """The place of this name; the root has none."""
        return split(self.mount, self.path)

    @property
    def seen(self) -> Entry | None:
        """The output that the asking process sees there, or None."""
        return self.mine or self.entry

    @property
    def is_free(self) -> bool:
        """Whether the asking process sees nothing there."""
        return self.input == "missing" and self.seen is None and self.own is None

    @property
    def is_input(self) -> bool:
        """Whether an input is there."""
        return self.input != "missing"

    @property
    def is_link(self) -> bool:
        """Whether a symbolic link is there."""
        return self.input == "link" or (self.seen is not None and self.seen.is_link)

    @property
    def is_directory(self) -> bool:
        """Whether a directory is there."""
        return self.input == "directory" or (self.seen is not None and self.seen.is_directory)


class Walker:
    """Resolves paths for one rank."""

    def __init__(
        self,
        inputs: Sequence[Inputs],
        homes: HomeClient,
        gate: Gate,
        drafts: Drafts,
        versions: Versions,
    ) -> None:
        self._inputs = inputs
        self._gate = gate
        self._homes = homes
        self._drafts = drafts
        self._versions = versions

    async def resolve(
        self, mount: int, path: bytes, pid: int, follow: bool = True, create: bool = False
    ) -> Resolved:
        """Resolves a path; through a link at its end where `follow` is set or a slash follows. What
        is missing may only be its last name. create: a file may be made there. Raises ENOENT,
        ENOTDIR, ELOOP, ENAMETOOLONG; EISDIR when the file to be made has a slash at its end."""
        _check_length(path)
        found = await self._fast(mount, path, pid)
        if found is not None and not (follow and found.is_link):
            return found
        return await _Walk(self, self._inputs, mount, path, pid, follow, create).run()

    async def name(self, mount: int, path: bytes, pid: int, long: bool = False) -> Resolved:
        """Resolves the path of a name that is to be changed: a link at its end is not followed,
        slashes after it or not. long: a name that is too long counts as free, instead of raising
        ENAMETOOLONG."""
        _check_length(path)
        stripped = path.rstrip(b"/")
        parent, _, last = stripped.rpartition(b"/")
        slash = stripped != path
        if last in _SPECIAL:
            found = await self._directory(mount, parent, pid)
            return replace(found, special=last or b"/")
        found_fast = await self._fast(mount, stripped, pid)
        if found_fast is not None:
            return replace(found_fast, slash=slash)
        directory = await self._directory(mount, parent, pid)
        if directory.elsewhere is not None:
            rest = last + b"/" if slash else last
            return replace(directory, elsewhere=_joined(directory.elsewhere, rest))
        place = Place(directory.mount, directory.path, last)
        if len(last) <= NAME_MAX:
            return replace(await self.find(place, pid), slash=slash)
        if not long:
            raise failure(errno.ENAMETOOLONG, path)
        return Resolved(place.mount, place.path, slash=slash)

    def hoped(self, mount: int, path: bytes) -> Place | None:
        """Returns the place of a name of another home that is no input's and that no process here
        is writing: a step that succeeds there found no link on the way, so it can be tried at once.
        None: the path must be resolved."""
        if len(path) >= PATH_MAX or not _is_normal(path):
            return None
        place = split(mount, path)
        if self._homes.is_here(place):
            return None
        if self._inputs[mount].kind(path) != "missing" or self._drafts.at(place) is not None:
            return None
        return place

    async def find(self, place: Place, pid: int) -> Resolved:
        """Returns what a name stands for in a directory that is known to exist."""
        kind = self._inputs[place.mount].kind(place.path)
        if kind != "missing":
            return Resolved(place.mount, place.path, kind)
        found = await self._ask(place, pid)
        return found or Resolved(place.mount, place.path)

    async def _directory(self, mount: int, path: bytes, pid: int) -> Resolved:
        found = await self.resolve(mount, path, pid)
        if found.elsewhere is None and not found.is_directory:
            raise failure(errno.ENOENT if found.is_free else errno.ENOTDIR, path)
        return found

    async def _fast(self, mount: int, path: bytes, pid: int) -> Resolved | None:
        """Resolves a path in normal form that leads through no link with one question. None when it
        must be walked."""
        if not path:
            return Resolved(mount, b"", "directory")
        if not _is_normal(path):
            return None
        inputs = self._inputs[mount]
        kind = inputs.kind(path)
        if kind != "missing":
            return Resolved(mount, path, kind)
        return await self._ask(split(mount, path), pid)

    async def _ask(self, place: Place, pid: int) -> Resolved | None:
        """Asks the home rank; None when the directory does not exist by that very path."""
        draft = self._drafts.at(place)
        others = draft is not None and self._drafts.find(place, pid) is None
        if draft is not None and others and not self._gate.is_alone:
            with contextlib.suppress(OSError):
                await self._drafts.look(draft)
        found = await self._homes.get(place)
        if not found.known:
            return None
        own = self._drafts.find(place, pid)
        mine = None
        if own is not None:
            with contextlib.suppress(OSError):  # allowed, but not made yet
                mine = self._versions.entry(own)
        return Resolved(place.mount, place.path, "missing", found.entry, own, mine)


class _Walk:
    """A path resolved component by component, as the kernel does it."""

    def __init__(
        self,
        walker: Walker,
        inputs: Sequence[Inputs],
        mount: int,
        path: bytes,
        pid: int,
        follow: bool,
        create: bool,
    ) -> None:
        self._walker = walker
        self._inputs = inputs
        self._pid = pid
        self._follow = follow
        self._create = create
        self._path = path
        self._links = 0
        self._at = Resolved(mount, b"", "directory")  # a directory, always
        self._left = path.split(b"/")[::-1]

    async def run(self) -> Resolved:
        """Walks to the end and returns it."""
        while self._left:
            found = await self._step(self._left.pop())
            if found is not None:
                return found
        if self._at.entry is not None or self._at.is_input:
            return self._at
        return await self._walker.find(self._at.place, self._pid)

    async def _step(self, name: bytes) -> Resolved | None:
        """Walks one component; returns the end if that was it, else None."""
        if name in (b"", b"."):
            return None
        if name == b"..":
            return self._up()
        last, slash = not any(self._left), bool(self._left)
        if self._create and last and slash:
            raise failure(errno.EISDIR, self._path)
        if len(name) > NAME_MAX:
            raise failure(errno.ENAMETOOLONG, self._path)
        at = self._at
        found = await self._walker.find(Place(at.mount, at.path, name), self._pid)
        if found.is_link and (self._follow or slash):
            return self._through(found)
        if found.is_directory:
            self._at = found
            return None
        if found.is_free:
            if not last:
                raise failure(errno.ENOENT, self._path)
        elif slash:
            raise failure(errno.ENOTDIR, self._path)
        return replace(found, slash=slash)

    def _up(self) -> Resolved | None:
        mount, path = self._at.mount, self._at.path
        if not path:
            return self._out(posixpath.dirname(self._inputs[mount].prefixes[0]))
        path = path.rpartition(b"/")[0]
        self._at = Resolved(mount, path, self._inputs[mount].kind(path))
        return None

    def _through(self, link: Resolved) -> Resolved | None:
        self._links += 1
        if self._links > LINKS_MAX:
            raise failure(errno.ELOOP, self._path)
        inputs = self._inputs[link.mount]
        target = link.entry.target if link.entry else inputs.target(link.path)
        if target.startswith(b"/"):
            inside = self._inside(target)
            if inside is None:
                return self._out(target)
            mount, target = inside
            self._at = Resolved(mount, b"", "directory")
        self._left.extend(target.split(b"/")[::-1])
        return None

    def _inside(self, target: bytes) -> tuple[int, bytes] | None:
        """Returns the mount and the rest of an absolute path that lies in a mount by its very text;
        else None."""
        for mount, inputs in enumerate(self._inputs):
            for prefix in inputs.prefixes:
                if target == prefix or target.startswith(prefix + b"/"):
                    return mount, target[len(prefix) + 1 :]
        return None

    def _out(self, path: bytes) -> Resolved:
        rest = b"/".join(self._left[::-1])
        whole = _joined(path, rest) if self._left else path
        _check_length(whole)
        return replace(self._at, elsewhere=whole)


def _is_normal(path: bytes) -> bool:
    return all(
        component not in _SPECIAL and len(component) <= NAME_MAX for component in path.split(b"/")
    )


def _joined(path: bytes, rest: bytes) -> bytes:
    return path + rest if path.endswith(b"/") else path + b"/" + rest


def _check_length(path: bytes) -> None:
    if len(path) >= PATH_MAX:
        raise failure(errno.ENAMETOOLONG, path)
