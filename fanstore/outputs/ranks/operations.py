"""Answers requests of this rank's programs about names that other ranks keep, or files that other
ranks have."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import fields

from fanstore._native import lib
from fanstore.outputs.files.placing import rename_to_free
from fanstore.outputs.model.entries import Changes, Entry, failure, keeper_of, refuse
from fanstore.outputs.model.wire import Answer, Op, Request, Where
from fanstore.outputs.ranks.copies import Copies
from fanstore.outputs.ranks.holds import Claim, Holds, Name
from fanstore.outputs.ranks.trees import Listed, Seen, Trees, listed_as
from fanstore.outputs.ranks.walk import (
    PATH_MAX,
    PLACED,
    Outside,
    Resolved,
    Walker,
    check_directory,
    end_of,
    together,
)
from fanstore.outputs.tree.inputs import Inputs
from fanstore.outputs.tree.shared import Shared
from fanstore.outputs.tree.walk import LINK_PREFIX
from fanstore.rank_calls.peers import Peers

_INODE_BIT = 1 << 62
_RANK_SHIFT = 44
TRIES = 100  # how often an operation is tried if something changes meanwhile
DONE = Answer(Where.DONE)
RENAME_NOREPLACE = 1
_SYMLINK_FOLLOW = 0x400  # AT_SYMLINK_FOLLOW of linkat(2), which Python's os lacks
_SPECIAL_UNLINK = dict.fromkeys((b".", b"..", b"/"), errno.EISDIR)
_SPECIAL_RMDIR = {b".": errno.EINVAL, b"..": errno.ENOTEMPTY, b"/": errno.EBUSY}
_AGAIN = (errno.ESTALE, errno.ENOENT)  # errnos of a rank that no longer has the file
_BITS = {
    each.name: getattr(lib, f"FAN_OUTPUT_{each.name.removesuffix('_ns').upper()}")
    for each in fields(Changes)
}

_Step = Callable[[Request], Awaitable["Answer | None"]]


class Operations:
    """Runs the requests of this rank's programs, and those of other ranks about this rank's
    trees."""

    def __init__(
        self,
        peers: Peers,
        inputs: Sequence[Inputs],
        trees: Trees,
        copies: Copies,
        shared: Shared,
        placed: Sequence[bytes],
    ) -> None:
        """placed: for each mount, the directory of its outputs in the output directory."""
        self._peers = peers
        self._inputs = inputs
        self._trees = trees
        self._copies = copies
        self._shared = shared
        self._placed = placed
        # Directories in which all ranks look for outputs.
        self._known: set[tuple[int, bytes]] = set()
        for name in ("look_for", "look_down", "listing", "present"):
            peers.serve(f"tree.{name}", getattr(trees, name))
        for name in (
            "know", "unclaim", "point", "unlink", "rmdir", "move", "moved", "change", "read",
            "give", "drop", "follow", "keeps",
        ):  # fmt: skip
            self._serve(name, getattr(trees, name))
        self._holds = Holds(peers, trees)
        self._walker = Walker(peers, inputs, trees, placed, self._holds)
        self._moving = asyncio.Lock()
        peers.serve("rename.directory", self._rename_for)
        peers.serve("rename.settle", self._settle_for)
        peers.serve("tree.touch", lambda _, mount, record: inputs[mount].touch(record))
        self._steps: dict[int, _Step] = {
            Op.LOOKUP: self._lookup,
            Op.LIST: self._list,
            Op.OPEN: self._open,
            Op.TRUNCATE: self._truncate,
            Op.RENAME: self._rename,
            Op.MKDIR: self._mkdir,
            Op.MKNOD: self._mknod,
            Op.SYMLINK: self._symlink,
            Op.LINK: self._link,
            Op.UNLINK: self._unlink,
            Op.RMDIR: self._rmdir,
            Op.CHANGE: self._change,
            Op.SETTLE: self._settle,
        }

    def _serve(self, name: str, function: Callable[..., object]) -> None:
        self._peers.serve(f"tree.{name}", lambda _, *args: function(*args))

    async def run(self, request: Request) -> Answer:
        """Runs a client's request. Raises OSError."""
        step = self._steps[request.op]
        try:
            for _ in range(TRIES):
                answer = await step(request)
                if answer is not None:
                    return answer
        except Outside as way:
            return Answer(Where.ELSEWHERE, text=way.text)
        raise failure(errno.EIO, request.path)

    # ---- looking ----

    async def _lookup(self, request: Request) -> Answer:
        found = await self._walker.resolve(request, not request.how & lib.FAN_OUTPUT_NOFOLLOW)
        if found.is_input:
            raise self._walker.at_input(found)
        if found.entry is None or found.entry.hidden:
            raise failure(errno.ENOENT, request.path)
        text = found.entry.target if found.is_link else found.path
        return Answer(Where.HERE, _shown(found.entry), text)

    async def _list(self, request: Request) -> Answer:
        found = await self._walker.resolve(request)
        check_directory(found)
        keeper = self._keeper_in(found)
        if keeper == PLACED:
            raise failure(errno.EIO, found.path)
        listed: list[Listed]
        listed, of_ranks = await self._peers.call(keeper, "tree.listing", found.mount, found.path)
        for more in await self._peers.call_each(
            of_ranks,
            lambda rank: ("tree.present", found.mount, found.path, of_ranks[rank]),
        ):
            listed += more
        known = {each.name for each in listed}
        for name in [each for names in of_ranks.values() for each in names if each not in known]:
            entry = await self._walker.entry(found, name)  # it may be moving to another rank
            if entry is not None and not entry.hidden:
                listed.append(listed_as(name, entry))
        shown = tuple(
            (each.name, each.type, _shown_inode(each.rank, each.inode)) for each in listed
        )
        return Answer(Where.DONE, listing=shown)

    def _keeper_in(self, directory: Resolved) -> int:
        """Returns the rank that keeps the names in a directory."""
        if directory.entry is not None:
            return directory.has
        return keeper_of(directory.mount, directory.path, self._peers.world_size)

    # ---- opening ----

    async def _open(self, request: Request) -> Answer | None:
        flags = request.flags
        creates, changes = bool(flags & os.O_CREAT), _changes(flags)
        exclusive = creates and bool(flags & os.O_EXCL)
        follow = not (flags & os.O_NOFOLLOW or exclusive)
        found = await self._walker.resolve(request, follow, creates)
        refuse(request.path, (exclusive and not found.is_free, errno.EEXIST))
        if found.is_input:
            refuse(
                request.path,
                (found.is_directory and (creates or changes), errno.EISDIR),
                (changes, errno.EROFS),
            )
            raise self._walker.at_input(found)
        if found.entry is None:
            if not creates:
                raise failure(errno.ENOENT, request.path)
            made: list[int] = []
            path = await self._make(found, False, lambda real: made.append(_create(real, request)))
            return None if path is None else Answer(Where.MADE, text=path, fd=made[0])
        if found.is_directory:
            refuse(request.path, (creates or changes, errno.EISDIR))
            path = self._trees.stand_in(found.mount, found.path, found.has)
            return Answer(Where.DIRECTORY, text=path)
        refuse(request.path, (bool(flags & os.O_DIRECTORY), errno.ENOTDIR))
        if found.is_link:
            refuse(request.path, (not flags & os.O_PATH, errno.ELOOP))
            return Answer(Where.HERE, _shown(found.entry), found.entry.target)
        return await self._open_file(found, found.entry, changes, bool(flags & os.O_TRUNC))

    async def _open_file(
        self, found: Resolved, entry: Entry, changes: bool, cut: bool
    ) -> Answer | None:
        if entry.rank == self._peers.rank:
            return Answer(Where.TREE, text=self._trees.path(found.mount, found.path))
        refuse(
            found.path,
            (not entry.is_file, errno.ENXIO),
            (entry.hidden and not changes, errno.ENOENT),
        )
        if changes:
            path = await self._take_over(found, entry, cut)
            return None if path is None else Answer(Where.TREE, text=path)
        path = await self._copy(found, entry)
        return None if path is None else Answer(Where.COPY, _shown(entry), path)

    async def _copy(self, found: Resolved, entry: Entry) -> bytes | None:
        """Returns the path of a copy of a file; None if the file has changed meanwhile."""
        if entry.rank == PLACED:
            return os.path.join(self._placed[found.mount], found.path)
        try:
            return await self._copies.fetch(found.mount, found.path, entry)
        except OSError as error:
            if error.errno in _AGAIN or self._peers.is_lost(entry.rank):
                return None
            raise

    async def _take_over(self, found: Resolved, entry: Entry, cut: bool) -> bytes | None:
        """Moves a file from another rank to this one: the file is here before it is removed there.
        Returns its real path; None if it has changed meanwhile. Raises ETXTBSY if a program of that
        rank writes it."""
        if entry.rank == PLACED:
            raise failure(errno.EIO, found.path)
        brought = self._trees.new_path()
        if cut:
            os.close(os.open(brought, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            os.chmod(brought, stat.S_IMODE(entry.attr.mode))
        elif await self._copy(found, entry) is None or not self._copies.take(entry, brought):
            return None
        async with self._holding(found) as is_there:
            if is_there:
                return await self._take(found, entry, brought)
        os.unlink(brought)
        return None

    async def _take(self, found: Resolved, entry: Entry, brought: bytes) -> bytes | None:
        trees, mount, path, here = self._trees, found.mount, found.path, self._trees.rank
        kept = found.keeper == here
        real = trees.path(mount, path) if kept else trees.make_way(mount, path, found.keeper)
        if kept and trees.look(mount, path).rank == entry.rank:
            os.rename(brought, real)
        else:
            rename_to_free(brought, real)
        try:
            await self._peers.call(
                entry.rank, "tree.give", mount, path, entry.version, here, found.keeper
            )
        except OSError as error:
            with suppress(OSError):
                if kept:
                    trees.point(mount, path, entry.rank, False)
                else:
                    os.unlink(real)
            if error.errno in _AGAIN:
                return None
            raise
        if found.keeper not in (here, entry.rank):
            await self._peers.call(found.keeper, "tree.point", mount, path, here, False)
        self._shared.changed()
        return real

    async def _truncate(self, request: Request) -> Answer | None:
        found = await self._walker.resolve(request)
        refuse(
            request.path,
            (found.is_free, errno.ENOENT),
            (found.is_directory, errno.EISDIR),
            (found.is_input, errno.EROFS),
        )
        assert found.entry is not None
        refuse(request.path, (not found.entry.is_file, errno.EINVAL))
        answer = await self._open_file(found, found.entry, True, False)
        if answer is not None:
            os.truncate(answer.text, request.size)
            self._shared.changed()
            return DONE
        return None

    # ---- changing names ----

    @asynccontextmanager
    async def _holding(self, *names: Resolved, claim: Claim | None = None) -> AsyncIterator[bool]:
        """Holds names that are to change. Yields whether they still are as they were found. claim:
        as in Holds.of."""
        wanted = [(each.keeper, (each.mount, each.path)) for each in names]
        if any(keeper == PLACED for keeper, _ in wanted):
            raise failure(errno.EIO, names[0].path)
        async with self._holds.of(wanted, claim) as seen:
            yield all(_is_as_found(each, seen[each.mount, each.path]) for each in names)

    async def _make(
        self, found: Resolved, is_directory: bool, make: Callable[[bytes], None]
    ) -> bytes | None:
        """Makes something in this rank's tree under a free name, by calling `make` with a real
        path. Returns that path; None if the name is no longer free, or its directory was moved."""
        trees, mount, path, moves = self._trees, found.mount, found.path, self._trees.moves
        await self._let_know(mount, os.path.dirname(path))
        elsewhere = found.keeper != trees.rank
        # The name points to a rank that no longer has the file, because the program that made it
        # was killed.
        if found.pointed is not None:
            await self._forget(found)
            return None
        claim = (trees.rank, is_directory) if elsewhere else None
        try:
            async with self._holding(found, claim=claim) as is_free:
                if not is_free:
                    return None
                try:
                    if trees.moves != moves:
                        return None
                    real = trees.make_way(mount, path, found.keeper)
                    if trees.look(mount, path).entry is None:
                        make(real)
                    else:  # a failed rename has given the name back
                        real = b""
                    moves = -1
                finally:
                    if moves >= 0:
                        await self._unclaim(found, trees.rank)
                self._shared.changed()
                return real or None
        except FileExistsError:  # a program of the rank that has the directory made it first
            return None

    async def _forget(self, found: Resolved) -> None:
        """Removes a pointer to a rank that has no such file."""
        async with self._holding(found) as is_there:
            if is_there:
                await self._peers.call(
                    found.keeper, "tree.unclaim", found.mount, found.path, found.pointed
                )

    async def _let_know(self, mount: int, directory: bytes) -> None:
        """Makes all ranks look for outputs in a directory of the dataset, before the first output
        is in it."""
        key, record = (mount, directory), self._inputs[mount].record(directory)
        if record is None or key in self._known:
            return
        ranks = range(self._peers.world_size)
        await self._peers.call_each(ranks, lambda _: ("tree.touch", mount, record))
        await self._peers.call_each(
            [keeper_of(mount, directory, self._peers.world_size)],
            lambda _: ("tree.know", mount, directory),
        )
        self._known.add(key)

    async def _made(
        self, found: Resolved, is_directory: bool, make: Callable[[bytes], None]
    ) -> Answer | None:
        return None if await self._make(found, is_directory, make) is None else DONE

    async def _unclaim(self, found: Resolved, rank: int) -> None:
        """Removes the pointer to a rank that no longer has the file."""
        if found.keeper != rank:
            with suppress(OSError):
                await self._peers.call(found.keeper, "tree.unclaim", found.mount, found.path, rank)

    async def _mkdir(self, request: Request) -> Answer | None:
        found = await self._new_name(request, slash=True)

        def make(path: bytes) -> None:
            os.mkdir(path, 0o700)
            os.chmod(path, request.mode & 0o1777)

        return await self._made(found, True, make)

    async def _mknod(self, request: Request) -> Answer | None:
        found = await self._new_name(request)
        if stat.S_ISSOCK(request.mode):  # bind(2) itself makes the socket
            path = await self._make(found, False, lambda _: None)
            return None if path is None else Answer(Where.TREE, text=path)
        return await self._made(found, False, lambda path: _mknod(path, request.mode))

    async def _symlink(self, request: Request) -> Answer | None:
        target = request.other
        is_long = len(target) >= PATH_MAX - len(LINK_PREFIX)
        refuse(target, (not target, errno.ENOENT), (is_long, errno.ENAMETOOLONG))
        found = await self._new_name(request)
        self._shared.expect_links()
        return await self._made(found, False, lambda path: os.symlink(LINK_PREFIX + target, path))

    async def _link(self, request: Request) -> Answer | None:
        follow = bool(request.flags & _SYMLINK_FOLLOW)
        source = await end_of(self._walker.resolve(request, follow))
        if isinstance(source, Resolved) and source.is_free:
            raise failure(errno.ENOENT, request.path)
        source, new = together(source, await end_of(self._new_name(request.about_other())))
        refuse(
            request.path,
            (source.is_directory, errno.EPERM),
            (source.is_input or source.has != self._trees.rank, errno.EXDEV),
        )
        real = self._trees.path(source.mount, source.path)
        return await self._made(new, False, lambda path: os.link(real, path, follow_symlinks=False))

    async def _new_name(self, request: Request, slash: bool = False) -> Resolved:
        """Returns the name that is to be made. Raises OSError if it may not be made. slash: whether
        the path may end in a slash."""
        found = await self._walker.name(request)
        taken = found.special is not None or not found.is_free
        refuse(
            request.path,
            (found.is_long, errno.ENAMETOOLONG),
            (taken, errno.EEXIST),
            (found.slash and not slash, errno.ENOENT),
        )
        return found

    # ---- removing and renaming ----

    async def _unlink(self, request: Request) -> Answer | None:
        found = await self._to_remove(request, _SPECIAL_UNLINK)
        refuse(request.path, (found.is_directory, errno.EISDIR), (found.slash, errno.ENOTDIR))
        return await self._remove(found, "tree.unlink")

    async def _rmdir(self, request: Request) -> Answer | None:
        found = await self._to_remove(request, _SPECIAL_RMDIR)
        refuse(request.path, (not found.is_directory, errno.ENOTDIR))
        return await self._remove(found, "tree.rmdir")

    async def _remove(self, found: Resolved, call: str) -> Answer | None:
        if found.has == PLACED:
            raise failure(errno.EIO, found.path)
        async with self._holding(found) as is_there:
            if not is_there:
                return None
            try:
                await self._peers.call(found.has, call, found.mount, found.path)
            except FileNotFoundError:
                return None
            await self._unclaim(found, found.has)
        return DONE

    async def _to_remove(self, request: Request, special: Mapping[bytes, int]) -> Resolved:
        """Returns the name that is to be removed. Raises OSError if it may not be removed. special:
        the errno for each path that does not end in a name, such as ".."."""
        found = await self._walker.name(request)
        if found.special is not None:
            raise failure(special[found.special], request.path)
        refuse(
            request.path,
            (found.is_long, errno.ENAMETOOLONG),
            (found.is_free, errno.ENOENT),
            (found.is_input, errno.EROFS),
        )
        return found

    async def _rename(self, request: Request) -> Answer | None:
        """Renames a file or directory: the rank that has the file renames it; then the new name
        points to that rank, and the old name is removed. A program that looks meanwhile finds the
        old name, or waits."""
        if request.flags & ~RENAME_NOREPLACE:
            raise failure(errno.EINVAL)
        old, new = await self._ends(request)
        if old.path == new.path:
            return DONE
        if not old.is_directory:
            return await self._renamed(old, new)
        done = await self._peers.call(self._mover(old.mount), "rename.directory", request)
        return DONE if done else None

    def _mover(self, mount: int) -> int:
        """Returns the rank that renames the directories of a mount."""
        return keeper_of(mount, b"", self._peers.world_size)

    async def _ends(self, request: Request) -> tuple[Resolved, Resolved]:
        """Resolves the two names of a rename. Raises OSError if the rename is not allowed."""
        old = await end_of(self._walker.name(request))
        new = await end_of(self._walker.name(request.about_other()))
        old, new = together(old, new)
        _check_rename(old, new, bool(request.flags & RENAME_NOREPLACE))
        if old.path != new.path and PLACED in (old.has, old.keeper, new.keeper):
            raise failure(errno.EIO, old.path)
        await self._let_know(new.mount, os.path.dirname(new.path))
        return old, new

    async def _rename_for(self, _rank: int, request: Request) -> bool:
        """Renames a directory. Returns False if something has changed meanwhile. One rank does this
        for all ranks, one rename at a time: two at once could move two directories into each
        other."""
        async with self._moving:
            try:
                old, new = await self._ends(request)
            except Outside:
                return False
            if not old.is_directory:
                return False
            return await self._renamed(old, new) is not None

    async def _renamed(self, old: Resolved, new: Resolved) -> Answer | None:
        async with self._holding(old, new) as are_there:
            if not are_there:
                return None
            try:
                if old.is_directory:
                    await self._rename_directory(old, new)
                else:
                    await self._rename_file(old, new)
            except FileNotFoundError:
                return None
        return DONE

    async def _rename_file(self, old: Resolved, new: Resolved) -> None:
        """Renames a file. If it raises FileNotFoundError, nothing has changed."""
        mount, rank = old.mount, old.has
        before = await self._peers.call(rank, "tree.move", mount, old.path, new.path)
        if new.keeper != rank:
            try:
                before = await self._peers.call(
                    new.keeper, "tree.point", mount, new.path, rank, False
                )
            except OSError:
                with suppress(OSError):
                    await self._peers.call(rank, "tree.move", mount, new.path, old.path)
                raise
        if before is not None and before != rank:
            with suppress(OSError):
                await self._peers.call(before, "tree.unlink", mount, new.path)
        await self._unclaim(old, rank)

    async def _rename_directory(self, old: Resolved, new: Resolved) -> None:
        """Renames a directory, including the files that other ranks have in it."""
        mount, rank, peers = old.mount, old.has, self._peers
        if not new.is_free:
            await peers.call(new.has, "tree.rmdir", mount, new.path)
            await self._unclaim(new, new.has)
        elif new.pointed is not None:
            await self._unclaim(new, new.pointed)
        await peers.call(rank, "tree.move", mount, old.path, new.path)
        await peers.call_each(
            [each for each in range(peers.world_size) if each != rank],
            lambda _: ("tree.moved", mount, old.path, new.path),
        )
        if new.keeper != rank:
            await peers.call(new.keeper, "tree.point", mount, new.path, rank, True)
        await self._unclaim(old, rank)

    # ---- what a program's own call may have changed of other ranks ----

    async def _settle(self, request: Request) -> Answer:
        """Makes other ranks follow a program of this rank that removed or renamed an entry of its
        own rank by a call of the kernel: another rank may have got one of the names just before the
        call."""
        mount = request.view
        names = [os.path.normpath(each) for each in (request.path, request.other) if each]
        if any(self._trees.was_pointed(mount, name) for name in names):
            await self._peers.call(self._mover(mount), "rename.settle", mount, names)
        return DONE

    async def _settle_for(self, keeper: int, mount: int, names: list[bytes]) -> None:
        """Makes the other ranks follow a program of `keeper`. Runs on the rank that renames the
        directories: if one were renamed meanwhile, other ranks would have files at these names that
        belong elsewhere."""
        others = [rank for rank in range(self._peers.world_size) if rank != keeper]
        async with (
            self._moving,
            self._holds.of([(keeper, (mount, name)) for name in names]) as held,
        ):
            if not all([await self._peers.call(keeper, "tree.keeps", *name) for name in held]):
                return
            old, new = (mount, names[0]), (mount, names[-1])
            if old != new:
                await self._follow(old, new[1], held[old], held[new], others)
            # After a rename, a file of another rank at the old name may have been made since.
            ranks = [rank for rank in others if rank != held[new].rank]
            await self._peers.call_each(ranks, lambda _: ("tree.drop", *new))

    async def _follow(
        self, old: Name, new: bytes, was: Seen, seen: Seen, others: list[int]
    ) -> None:
        """Renames the other ranks' part of an entry that its keeper has renamed: the stand-ins of a
        directory, or the file that a pointer leads to. was, seen: what is at the two names now."""
        if seen.entry is not None and seen.entry.is_directory and was == Seen():
            await self._peers.call_each(others, lambda _: ("tree.moved", *old, new))
        elif seen.rank is not None and seen.rank != was.rank:
            with suppress(OSError):
                await self._peers.call(seen.rank, "tree.follow", *old, new)

    # ---- attributes ----

    async def _change(self, request: Request) -> Answer | None:
        changes = Changes(
            **{name: getattr(request, name) for name, bit in _BITS.items() if request.change & bit}
        )
        found = await self._walker.resolve(request, not request.how & lib.FAN_OUTPUT_NOFOLLOW)
        refuse(
            request.path,
            (found.is_free, errno.ENOENT),
            (found.is_input, errno.EROFS),
            (found.is_link and changes.mode is not None, errno.EOPNOTSUPP),
        )
        if found.has == PLACED:
            raise failure(errno.EIO, found.path)
        try:
            await self._peers.call(found.has, "tree.change", found.mount, found.path, changes)
        except FileNotFoundError:
            return None
        return DONE


def _shown(entry: Entry) -> Entry:
    """Returns an entry with the inode number that programs see."""
    return entry._replace(inode=_shown_inode(entry.rank, entry.inode))


def _shown_inode(rank: int, inode: int) -> int:
    """Returns the inode number that programs of all ranks see (fan_tree_inode of
    csrc/client/paths/output_tree.h)."""
    return (inode ^ max(rank, 0) << _RANK_SHIFT) | _INODE_BIT


def _changes(flags: int) -> bool:
    """Returns whether an open with these flags may change the file."""
    writes = flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_TRUNC
    return bool(writes) and not flags & os.O_PATH


def _is_as_found(found: Resolved, seen: Seen) -> bool:
    """Returns whether the rank that keeps a name knows about it what it knew before."""
    if found.entry is None or found.pointed is not None:
        return seen.entry is None and seen.rank == found.pointed
    return seen.entry is not None and seen.entry.inode == found.entry.inode


def _create(path: bytes, request: Request) -> int:
    """Creates a file. Returns a descriptor with the flags of the program's open."""
    fd = os.open(path, request.flags | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, stat.S_IMODE(request.mode))
    return fd


def _mknod(path: bytes, mode: int) -> None:
    os.mknod(path, stat.S_IFMT(mode) or stat.S_IFREG)
    os.chmod(path, stat.S_IMODE(mode))


def _check_rename(old: Resolved, new: Resolved, noreplace: bool) -> None:
    """Raises the errors of Linux's rename(2), in the same order."""
    over = not new.is_free and old.path != new.path
    refuse(
        old.path,
        (old.special is not None, errno.EBUSY),
        (new.special is not None, errno.EEXIST if noreplace else errno.EBUSY),
        (old.is_long, errno.ENAMETOOLONG),
        (old.is_free, errno.ENOENT),
        (new.is_long, errno.ENAMETOOLONG),
        (noreplace and not new.is_free, errno.EEXIST),
        (not old.is_directory and (old.slash or new.slash), errno.ENOTDIR),
        (old.is_input or new.is_input, errno.EROFS),
        (new.path.startswith(old.path + b"/"), errno.EINVAL),
        (old.path.startswith(new.path + b"/"), errno.ENOTEMPTY),
        (over and old.is_directory and not new.is_directory, errno.ENOTDIR),
        (over and new.is_directory and not old.is_directory, errno.EISDIR),
    )
