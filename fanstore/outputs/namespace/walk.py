"""Resolves a client's path: to an input, an output, through links, or out of the mounts."""

from __future__ import annotations

import contextlib
import errno
import posixpath
from collections.abc import Awaitable
from dataclasses import dataclass, replace

from fanstore.outputs.model.entries import Entry, Place, failure, refuse, split
from fanstore.outputs.model.wire import Request
from fanstore.outputs.namespace.context import Context, Outside

LINKS_MAX = 40
NAME_MAX = 255
PATH_MAX = 4096

_SPECIAL = (b"", b".", b"..")


@dataclass(frozen=True)
class Resolved:
    """The end of a path. mount, path: where, in normal form. input: what it is among the inputs.
    entry: what everybody sees there; own: the object that the asking process is writing under that
    name, mine: that as an entry. slash: the path had one at its end. special: its last component,
    if that was no name (`name` only)."""

    mount: int
    path: bytes
    input: str = "missing"
    entry: Entry | None = None
    own: int | None = None
    mine: Entry | None = None
    slash: bool = False
    special: bytes | None = None

    @property
    def place(self) -> Place:
        """The place of this name; the root has none."""
        return split(self.mount, self.path)

    @property
    def seen(self) -> Entry | None:
        """The output that the asking process sees there, or None."""
        return self.mine or self.entry

    @property
    def identity(self) -> int:
        """The object that an output's name stands for to the asking process."""
        found = self.own or (self.entry and self.entry.object_id)
        assert found
        return found

    @property
    def is_free(self) -> bool:
        """Whether the asking process sees nothing there."""
        return self.input == "missing" and self.seen is None and self.own is None

    @property
    def is_long(self) -> bool:
        """Whether its name is longer than names may be."""
        return len(self.place.name) > NAME_MAX

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


async def resolve(
    context: Context, request: Request, follow: bool = True, create: bool = False
) -> Resolved:
    """Resolves the path of a request; through a link at its end where `follow` is set or a slash
    follows. What is missing may only be its last name. create: a file may be made there. Raises
    Outside, ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG; EISDIR when the file to be made has a slash at
    its end."""
    path = request.path
    _check_length(path)
    if _is_normal(path):  # mostly there is no link on the way, which takes one question
        found = await _look(context, split(request.view, path), request.pid)
        if found is not None and not (follow and found.is_link):
            return found
    return await _walk(context, request, follow, create)


async def name(context: Context, request: Request) -> Resolved:
    """Resolves the path of a name that is to be changed: a link at its end is not followed, slashes
    after it or not. A name that is too long is free, and `is_long`."""
    path = request.path
    _check_length(path)
    parent, _, last = path.rstrip(b"/").rpartition(b"/")
    slash = path.endswith(b"/")
    try:
        found = await resolve(context, replace(request, path=parent))
    except Outside as way:
        raise Outside(_joined(way.text, last + b"/" if slash else last)) from None
    check_directory(found)
    if last in _SPECIAL:
        return replace(found, special=last or b"/")
    place = Place(found.mount, found.path, last)
    if len(last) > NAME_MAX:
        return Resolved(place.mount, place.path, slash=slash)
    return replace(await _find(context, place, request.pid), slash=slash)


async def end_of(resolving: Awaitable[Resolved]) -> Resolved | Outside:
    """Returns the end of one of two paths, or its way out, to be given to `together`."""
    try:
        return await resolving
    except Outside as way:
        return way


def together(first: Resolved | Outside, second: Resolved | Outside) -> tuple[Resolved, Resolved]:
    """Returns the ends of two paths in one mount. Raises Outside where both lead out, else
    EXDEV."""
    if isinstance(first, Outside) and isinstance(second, Outside):
        raise Outside(first.text + b"\0" + second.text)
    if isinstance(first, Outside) or isinstance(second, Outside) or first.mount != second.mount:
        raise failure(errno.EXDEV)
    return first, second


def at_input(context: Context, found: Resolved) -> Outside:
    """Returns (does not raise) the way on of a path that ends at an input."""
    prefix = context.inputs[found.mount].prefixes[0]
    return Outside(prefix + b"/" + found.path if found.path else prefix)


async def _find(context: Context, place: Place, pid: int) -> Resolved:
    """Returns what a name stands for in a directory that is known to exist."""
    return await _look(context, place, pid) or Resolved(place.mount, place.path)


async def _look(context: Context, place: Place, pid: int) -> Resolved | None:
    """Returns what a name stands for; None when its directory does not exist by that very path."""
    kind = context.inputs[place.mount].kind(place.path)
    if kind != "missing":
        return Resolved(place.mount, place.path, kind)
    drafts = context.drafts
    draft = drafts.at(place)
    others = draft is not None and drafts.find(place, pid) is None
    if draft is not None and others and not context.gate.is_alone:
        await drafts.look(draft)
    try:
        entry = await context.homes.get(place)
    except FileNotFoundError:
        return None
    own = drafts.find(place, pid)
    mine = None
    if own is not None:
        with contextlib.suppress(OSError):  # allowed, but not made yet
            mine = context.store.entry(own)
    return Resolved(place.mount, place.path, "missing", entry, own, mine)


async def _walk(context: Context, request: Request, follow: bool, create: bool) -> Resolved:
    """Resolves a path component by component, as the kernel does it."""
    at, links = Resolved(request.view, b"", "directory"), 0  # a directory, always
    path, pid = request.path, request.pid
    left = path.split(b"/")[::-1]
    while left:
        name = left.pop()
        if name in (b"", b"."):
            continue
        inputs = context.inputs[at.mount]
        if name == b"..":
            if not at.path:
                raise _out(posixpath.dirname(inputs.prefixes[0]), left)
            parent = at.path.rpartition(b"/")[0]
            at = Resolved(at.mount, parent, inputs.kind(parent))
            continue
        last, slash = not any(left), bool(left)
        is_long = len(name) > NAME_MAX
        refuse(path, (create and last and slash, errno.EISDIR), (is_long, errno.ENAMETOOLONG))
        found = await _find(context, Place(at.mount, at.path, name), pid)
        if found.is_link and (follow or slash):
            links += 1
            refuse(path, (links > LINKS_MAX, errno.ELOOP))
            target = found.entry.target if found.entry else inputs.target(found.path)
            if target.startswith(b"/"):
                inside = _inside(context, target)
                if inside is None:
                    raise _out(target, left)
                at, target = inside
            left += target.split(b"/")[::-1]
        elif found.is_directory:
            at = found
        else:
            free = found.is_free
            refuse(path, (free and not last, errno.ENOENT), (slash and not free, errno.ENOTDIR))
            return replace(found, slash=slash)
    if at.entry is not None or at.is_input:
        return at
    return await _find(context, at.place, pid)


def _inside(context: Context, target: bytes) -> tuple[Resolved, bytes] | None:
    """Returns the root of the mount and the rest of an absolute path that lies in a mount by its
    very text; else None."""
    for mount, inputs in enumerate(context.inputs):
        for prefix in inputs.prefixes:
            if target == prefix or target.startswith(prefix + b"/"):
                return Resolved(mount, b"", "directory"), target[len(prefix) + 1 :]
    return None


def _out(path: bytes, left: list[bytes]) -> Outside:
    """Returns (does not raise) the way on of a path that leads out of its mount."""
    whole = _joined(path, b"/".join(left[::-1])) if left else path
    _check_length(whole)
    return Outside(whole)


def _is_normal(path: bytes) -> bool:
    return all(
        component not in _SPECIAL and len(component) <= NAME_MAX for component in path.split(b"/")
    )


def check_directory(found: Resolved) -> None:
    """Raises ENOENT or ENOTDIR where no directory is."""
    refuse(found.path, (found.is_free, errno.ENOENT), (not found.is_directory, errno.ENOTDIR))


def _joined(path: bytes, rest: bytes) -> bytes:
    return path + rest if path.endswith(b"/") else path + b"/" + rest


def _check_length(path: bytes) -> None:
    refuse(path, (len(path) >= PATH_MAX, errno.ENAMETOOLONG))
