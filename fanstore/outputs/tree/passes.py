"""Stage-out: makes the output directory equal to the output tree.

A pass takes stock of the tree, compares it with what was placed, and does what is missing. If a
daemon is killed during a pass, the next pass finds the unfinished work as missing. A rescue is
therefore an ordinary pass.

- A copy is removed only after its bytes are placed under another name, or when its file has no name
  left. The pass is sure that no name is left if no rename happened during the walk.
- A pass replaces or removes only files that it placed, recognised by their inode, size and time.
- A copy is one whole version: before and after copying, the file has the same attributes and the
  kernel grants a read lease on it, which it does only if nobody can write to the file.
- Files are placed in the order of their last changes."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fanstore.outputs.files.files import birth_ns, is_written, open_unasked, set_attr
from fanstore.outputs.files.placing import copy_object, copy_together, name_together
from fanstore.outputs.model.entries import Attr, Identity, partial_names
from fanstore.outputs.tree import walk
from fanstore.outputs.tree.placed import ITSELF_NS, Copy, Placed, Source
from fanstore.outputs.tree.shared import Shared
from fanstore.outputs.tree.target import Target
from fanstore.outputs.tree.walk import Stock, take_stock

TOO_DEEP = "its path is longer than the kernel takes"
_TOGETHER = 256
_SMALL_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20
_TICKING = 5  # CLOCK_REALTIME_COARSE of clock_gettime(2), which Python's time lacks
_OF_THE_FILE = frozenset({
    errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.EILSEQ, errno.EFBIG, errno.EPERM,
})  # fmt: skip


class GivenUpError(Exception):
    """The pass was given up, and must end."""


@dataclass
class Todo:
    """An output to place. name: its path below the output directory. path: its path in the tree."""

    name: bytes
    path: bytes
    found: os.stat_result
    target: bytes = b""  # of a symbolic link
    partial: bool = False
    linked: bool = False  # the temporary name is a hard link to the file itself
    closed: bool = False  # this user may not read it: each open changes its mode, and so its ctime

    @property
    def source(self) -> Source:
        """The content's identity: the inode, size and times of the file that was found."""
        source = Source.of(self.found)
        return source._replace(ctime_ns=ITSELF_NS) if self.linked else source

    @property
    def is_link(self) -> bool:
        """Whether the entry is a symbolic link."""
        return stat.S_ISLNK(self.found.st_mode)


def _is_closed(found: os.stat_result) -> bool:
    return not found.st_mode & stat.S_IRUSR and os.geteuid() != 0


def next_tick_ns() -> int:
    """Waits until the clock of times of change is past this moment, and returns its time. Files
    that change from now on have at least this time, and those that changed before the call have an
    earlier one."""
    begun_ns = time.time_ns()
    while (now_ns := time.clock_gettime_ns(_TICKING)) <= begun_ns:
        time.sleep(0.001)
    return now_ns


def _in_order(todo: Todo) -> tuple[int, bytes]:
    return todo.found.st_ctime_ns, todo.name


@dataclass
class Result:
    """The result of a pass. waiting: names that are not placed yet, with their sizes. busy: those
    of them that a process is writing, or wrote just now. failed: why names could not be placed or
    removed. partials: placed files that were not finished. finished: the number of placed files,
    including partials."""

    waiting: dict[bytes, int] = field(default_factory=dict)
    busy: set[bytes] = field(default_factory=set)
    failed: dict[bytes, str] = field(default_factory=dict)
    partials: set[bytes] = field(default_factory=set)
    finished: int = 0
    finished_bytes: int = 0


class StageOut:
    """Runs passes over one job's trees. roots: as for take_stock. ended: an int32_t; when it is not
    0, passes raise GivenUpError."""

    def __init__(
        self,
        roots: list[tuple[bytes, bytes]],
        target: Target,
        placed: Placed,
        shared: Shared | None,
        ended: Any,
    ) -> None:
        self._roots = roots
        self._target = target
        self._placed = placed
        self._shared = shared
        self._ended = ended
        self._stock = Stock()
        self._still = self._force = False
        self._begun_ns: int | None = None
        self._killed: set[int] = set()
        self._watched: set[int] = set()
        self.result = Result()
        self.gone = 0  # copies that were replaced or removed
        self.copied_bytes = 0
        self.stock_s = 0.0  # how long the last pass took to find its work
        self.each: Callable[[bytes, bool], None] = lambda name, partial: None
        self.take: Callable[[bytes, Identity], bool] = lambda name, identity: False
        target.take = self._take

    def run(self, last: bool, force: bool = False) -> Result:
        """Runs one pass. last: all programs have ended; files are then hard-linked instead of
        copied, if possible. Raises OSError if the output directory cannot take anything now: later
        files then wait, too; with `force` they are tried nevertheless. Raises GivenUpError."""
        self._force = force
        self._begun_ns = None if last else next_tick_ns()
        moves, begun_s = self._moves(), time.monotonic()
        self._stock = stock = take_stock(self._roots, lift=last)
        self._still = last or (moves[0] == moves[1] and moves == self._moves())
        unknown = stock.deep or stock.unreadable or stock.hidden or stock.removed
        self._still = self._still and not unknown
        self.result = result = Result(failed=dict(stock.unreadable))
        result.failed.update((name, TOO_DEEP) for name in stock.deep)
        try:
            self._killed = self._unfinished()
            self._watched = set() if self._shared is None else set(self._shared.written)
            todo = self._todo(self._killed)
            self.stock_s = time.monotonic() - begun_s
            self._make_directories()
            self._place(todo, last)
            self._remove_the_rest()
            if last:
                self._finish_directories()
        finally:
            stock.close()
        return result

    def give(self, name: bytes, identity: Identity) -> bool:
        """Gives the file placed under a name to another rank, which now has the source. Returns
        whether this rank had placed it. May be called from any thread."""
        return self._placed.give(name, identity)

    def _take(self, name: bytes, identity: Identity) -> bool:
        if given := self.take(name, identity):
            self._placed.took(name, identity)
        return given

    def count(self) -> None:
        """Counts the files that wait to be placed, without a pass."""
        stock = take_stock(self._roots, lift=False)
        waiting = {
            name: found.st_size
            for name, (_, found) in stock.files.items()
            if not self._placed.has(name, found)
        }
        self.result.waiting = waiting

    def _moves(self) -> tuple[int, int]:
        return (0, 0) if self._shared is None else self._shared.moves()

    def _unfinished(self) -> set[int]:
        return set() if self._shared is None else self._shared.unfinished(self._is_written)

    def _is_written(self, inode: int) -> bool:
        for name in self._stock.names.get(inode, ()):
            with suppress(OSError):
                return is_written(self._stock.files[name][0]) is not False
        return False

    def _todo(self, killed: set[int]) -> list[Todo]:
        """Returns the outputs that are not placed, in the order of their last changes."""
        stock = self._stock
        todo: list[Todo] = []
        self._wanted: set[bytes] = set()
        for name, (path, found) in stock.files.items():
            if found.st_ino in killed and not self._is_as_placed(name, found):
                todo += self._todo_partial(name, path, found)
                continue
            self._wanted.add(name)
            if not self._placed.has(name, found):
                todo.append(Todo(name, path, found, closed=_is_closed(found)))
            else:
                self._count(found)
        for name, (target, found) in stock.links.items():
            self._wanted.add(name)
            if not self._placed.has(name, found):
                todo.append(Todo(name, b"", found, target))
        todo.sort(key=_in_order)
        for each in todo:
            self.result.waiting[each.name] = each.found.st_size
        newer = {each.name for each in todo if self._is_newer(each)}
        self.result.busy |= newer
        todo = [each for each in todo if each.name not in newer]
        if self._shared is not None and self._still and killed - stock.names.keys():
            self._shared.forget(killed - stock.names.keys())
        return todo

    def _is_newer(self, todo: Todo) -> bool:
        """Returns whether a file changed since the pass began. The walk may have missed files that
        were finished before it, such as the checkpoint that a marker names, so it waits for the
        next pass. (A time in the future says only that the clock was put back.)"""
        begun_ns = self._begun_ns
        return begun_ns is not None and begun_ns <= todo.found.st_ctime_ns <= time.time_ns()

    def _count(self, found: os.stat_result) -> None:
        self.result.finished += 1
        self.result.finished_bytes += found.st_size

    def _is_as_placed(self, name: bytes, found: os.stat_result) -> bool:
        """Returns whether the file is still as it was placed: then the program that was killed
        while it had the file open has written nothing."""
        copy = self._placed.copies.get(name)
        return copy is not None and copy.source.has_bytes_of(Source.of(found))

    def _todo_partial(self, name: bytes, path: bytes, found: os.stat_result) -> Iterator[Todo]:
        """Yields an unfinished file under a partial name beside its own name. A version that was
        placed under its own name stays."""
        self._wanted.add(name)
        if not self._placed.header.keep_partial or found.st_size == 0:
            return
        folder, last = os.path.split(name)
        for other in partial_names(last):
            partial = os.path.join(folder, other)
            copy = self._placed.copies.get(partial)
            if copy is not None and copy.source.inode == found.st_ino:
                break
            if copy is None and partial not in self._stock.files:
                break
        self._wanted.add(partial)
        if self._placed.has(partial, found):
            self.result.partials.add(partial)
            self._count(found)
        else:
            yield Todo(partial, path, found, partial=True, closed=_is_closed(found))

    def _make_directories(self) -> None:
        """Creates the directories that programs made. A directory of the dataset is created with
        the first file in it."""
        for name in sorted(self._stock.directories):
            self._check()
            if self._stock.is_made(name) and name not in self._placed.directories:
                try:
                    self._clear_the_way(name)
                    self._placed.make(name)
                    self._target.make(name, self._stock.directories[name].st_mode)
                    self._placed.directories.add(name)
                except OSError as error:
                    self._fail(name, error)

    def _clear_the_way(self, name: bytes) -> None:
        """Moves placed files away that are in the way: a file where a directory must be, or files
        and directories where a file must be."""
        if name in self._stock.directories:
            self._set_aside(name)
            return
        if name in self._placed.directories:
            for below in self._placed.below(name):
                self._set_aside(below)
            inner = [each for each in self._placed.directories if each.startswith(name + b"/")]
            for directory in sorted([*inner, name], reverse=True):
                self._target.remove_directory(directory)
                self._placed.directories.discard(directory)

    def _set_aside(self, name: bytes) -> None:
        """Moves a copy to the scratch directory, because its bytes may be needed under another
        name."""
        copy = self._placed.copies.get(name)
        if copy is not None and (aside := self._moved_aside(name, copy)) is not None:
            self._placed.done(aside, copy)

    def _moved_aside(self, name: bytes, copy: Copy, *intended: tuple[bytes, Copy]) -> bytes | None:
        """Moves a copy to a new name and records that, with what else is intended. Returns the new
        name, or None if the copy was not there."""
        aside = self._target.new_name()
        self._placed.intend([(aside, copy), *intended])
        moved = self._target.set_aside(name, copy, aside)
        self._placed.gone(name)
        return aside if moved else None

    def _place(self, todo: list[Todo], last: bool) -> None:
        together: list[Todo] = []
        for each in todo:
            self._check()
            try:
                self._clear_the_way(each.name)
                simple = not each.is_link and self._is_simple(each)
                if not simple or len(together) == _TOGETHER:
                    self._place_together(together, last)
                    together = []
                if simple:
                    together.append(each)
                else:
                    self._place_one(each, last)
            except OSError as error:
                self._fail(each.name, error, each.path)
        self._place_together(together, last)

    def _place_together(self, together: list[Todo], last: bool) -> None:
        try:
            self._copy_small(together, last)
        except OSError as error:
            for each in together:
                if each.name in self.result.waiting:
                    self._fail(each.name, error, each.path)

    def _is_simple(self, todo: Todo) -> bool:
        """Returns whether a file can be copied together with others: it is small, and no version of
        it is placed."""
        found = todo.found
        small = found.st_size <= _SMALL_BYTES and found.st_nlink == 1 and not todo.closed
        return small and not self._placed.copies_of(found.st_ino)

    def _fail(self, name: bytes, error: OSError, path: bytes = b"") -> None:
        """Records a failure that concerns one name; raises any other. path: in the tree; if the
        file no longer exists there, that is no failure."""
        if path and error.errno == errno.ENOENT and not os.path.lexists(path):
            self.result.busy.add(name)
            return
        if error.errno not in _OF_THE_FILE and not self._force:
            raise error
        self.result.failed[name] = str(error.strerror)

    def _check(self) -> None:
        if self._ended[0]:
            raise GivenUpError

    def _place_one(self, todo: Todo, last: bool) -> None:
        if todo.is_link:
            temporary = self._target.new_name()
            os.symlink(todo.target, self._target.path(temporary))
            self._name([(todo, temporary)])
        elif not self._take_over_copy(todo) and self._is_settled(todo):
            temporary = self._target.new_name()
            if self._bring(todo, temporary, last):
                self._name([(todo, temporary)])

    def _take_over_copy(self, todo: Todo) -> bool:
        """Gives an existing copy of the same bytes the name `todo`, if the file was renamed, linked
        or got other attributes. Returns whether that was possible."""
        for name in self._placed.copies_of(todo.found.st_ino):
            copy = self._placed.copies[name]
            if copy.source.ctime_ns == ITSELF_NS:
                todo.linked = True
            elif not copy.source.has_bytes_of(todo.source):
                continue
            elif not self._is_settled(todo):
                return True  # the next pass tries again
            elif not self._has_its_bytes(todo, name, copy):
                continue
            if name == todo.name:
                self._change_attributes(todo, copy)
            elif name in self._stock.names[todo.found.st_ino]:
                self._link(todo, name)
            else:
                self._rename(todo, name, copy)
            return True
        return False

    def _has_its_bytes(self, todo: Todo, name: bytes, copy: Copy) -> bool:
        """Compares the bytes of a file with its copy, because a program may have set the file's
        times back to old values."""
        found = self._target.look(name)
        if found is None or Identity.of(found) != copy.identity:
            return False
        with open_unasked(todo.path) as ours, open_unasked(self._target.path(name)) as theirs:
            while piece := ours.read(_PIECE_BYTES):
                self._check()
                if theirs.read(len(piece)) != piece:
                    return False
            return not theirs.read(1)

    def _change_attributes(self, todo: Todo, copy: Copy) -> None:
        """Changes attributes of a copy and then records that, because the identity of the copy does
        not show whether it was done."""
        set_attr(self._target.path(todo.name), Attr.of(todo.found))
        copy = Copy(todo.source, copy.identity)
        self._placed.intend([(todo.name, copy)])
        self._is_done(todo, copy)

    def _link(self, todo: Todo, name: bytes) -> None:
        """Makes the second name of a file a second name of its copy, too, which gets the file's
        attributes: afterwards both names count as placed."""
        if not todo.linked:
            set_attr(self._target.path(name), Attr.of(todo.found))
        temporary = self._target.new_name()
        os.link(self._target.path(name), self._target.path(temporary), follow_symlinks=False)
        self._name([(todo, temporary)])

    def _rename(self, todo: Todo, name: bytes, copy: Copy) -> None:
        """Renames a copy, so that its old name becomes free."""
        set_attr(self._target.path(name), Attr.of(todo.found))
        renamed = Copy(todo.source, copy.identity)
        if (aside := self._moved_aside(name, copy, (todo.name, renamed))) is not None:
            self._name([(todo, aside)])

    def _is_settled(self, todo: Todo) -> bool:
        """Returns whether a file is still the version that the pass saw, and no process can change
        it."""
        try:
            settled = not self._is_open(todo) and not self._was_left(todo)
            found = walk.look(todo.path)
            source = Source.of(found)
            # A change of attributes in the tick of the one before it shows in nothing but these.
            if source == todo.source or (todo.closed and source.has_bytes_of(todo.source)):
                todo.found = found  # of which todo.source is made
            settled = settled and source == todo.source
        except FileNotFoundError:
            settled = False
        if not settled:
            self.result.busy.add(todo.name)
        return settled

    def _is_open(self, todo: Todo) -> bool:
        """Returns whether a process can write to a file, according to the kernel's leases or, if
        its file system has none, to the programs' entries in the segment."""
        opened = is_written(todo.path)
        if opened is None and self._shared is not None:
            return todo.found.st_ino in self._shared.written
        return bool(opened)

    def _was_left(self, todo: Todo) -> bool:
        """Returns whether a program that had a file open for writing during the walk was killed
        since: no process can write to the file now, but it is not finished."""
        inode = todo.found.st_ino
        if todo.partial or inode not in self._watched:
            return False
        self._killed |= self._unfinished()
        return inode in self._killed

    def _bring(self, todo: Todo, temporary: bytes, last: bool) -> bool:
        """Copies one file to a temporary name. Returns whether the copy is one whole version."""
        path = self._target.path(temporary)
        if last and not todo.partial and self._target.takes_link(todo.path):
            os.link(todo.path, path, follow_symlinks=False)
            todo.linked = True
            return True
        copy_object(todo.path, path, Attr.of(todo.found), self._advance)
        if self._is_settled(todo):
            return True
        os.unlink(path)
        return False

    def _advance(self, count: int) -> None:
        self.copied_bytes += count
        self._check()

    def _copy_small(self, together: list[Todo], last: bool) -> None:
        """Copies small files, then syncs and names them together."""
        together = [each for each in together if self._is_settled(each)]
        if not together:
            return
        names = self._target.new_names(len(together))
        by_link = last and self._target.takes_link(together[0].path)
        files = [
            (each.path, self._target.path(name), Attr.of(each.found))
            for each, name in zip(together, names, strict=True)
        ]
        errors = copy_together(files, by_link, self._ended)
        self._check()
        named: list[tuple[Todo, bytes]] = []
        for each, name, error in zip(together, names, errors, strict=True):
            if error is not None:  # copying it alone may work, for example if it has holes
                try:
                    if self._bring(each, name, last):
                        named.append((each, name))
                except OSError as why:
                    self._name(named)
                    named = []
                    self._fail(each.name, why, each.path)
                continue
            each.linked = by_link
            self.copied_bytes += each.found.st_size
            if by_link or self._is_settled(each):
                named.append((each, name))
            else:
                os.unlink(self._target.path(name))
        self._name(named)

    def _name(self, copies: list[tuple[Todo, bytes]]) -> None:
        """Renames complete copies from temporary names to their own names, in order."""
        if not copies:
            return
        made = [(todo, temporary, self._copy_at(todo, temporary)) for todo, temporary in copies]
        self._placed.intend([(todo.name, copy) for todo, _, copy in made])
        for folder, group in itertools.groupby(made, lambda each: os.path.dirname(each[0].name)):
            self._target.make_parents(folder)
            self._name_in(list(group))

    def _copy_at(self, todo: Todo, temporary: bytes) -> Copy:
        return Copy(todo.source, Identity.of(os.lstat(self._target.path(temporary))))

    def _name_in(self, group: list[tuple[Todo, bytes, Copy]]) -> None:
        """Names copies in one directory, several at once as long as the names are free."""
        while group:
            self._check()
            pairs = [
                (self._target.path(each[1]), self._target.path(each[0].name)) for each in group
            ]
            count = len(name_together(pairs, self._ended))
            for todo, _, copy in group[:count]:
                self._target.changed(todo.name)
                self._is_done(todo, copy)
            group = group[count:]
            if group:
                self._replace(*group[0])
                group = group[1:]

    def _replace(self, todo: Todo, temporary: bytes, copy: Copy) -> None:
        """Names one copy whose name is taken. The copy that was placed there is kept as long as it
        may be needed under another name."""
        before = self._placed.copies.get(todo.name)
        if before is not None:
            self._placed.intend([(temporary, before)])
        old = self._target.put(temporary, todo.name, before)
        self._is_done(todo, copy)
        if old is not None:
            self._placed.done(temporary, old)
            if self._is_nowhere(old, todo.name):
                self._remove(temporary)

    def _is_done(self, todo: Todo, copy: Copy) -> None:
        if todo.closed and not todo.linked:
            found = Source.of(walk.look(todo.path))
            if found.has_bytes_of(copy.source):
                copy = copy._replace(source=found)
                self._placed.intend([(todo.name, copy)])
                self._renew_other_names(todo.name, copy)
        self._placed.done(todo.name, copy)
        self.result.waiting.pop(todo.name, None)
        if todo.partial:
            self.result.partials.add(todo.name)
        if not todo.is_link:
            self._count(todo.found)
        self.each(todo.name, todo.partial)

    def _renew_other_names(self, name: bytes, copy: Copy) -> None:
        """Records the time of change of a file also for its other names, whose copies are hard
        links of this one: otherwise each name would be placed anew after the other was read."""
        for other in self._placed.copies_of(copy.source.inode):
            if other != name and self._placed.copies[other].identity == copy.identity:
                self._placed.intend([(other, copy)])
                self._placed.done(other, copy)

    def _is_nowhere(self, copy: Copy, name: bytes) -> bool:
        """Returns whether a file is certain to have no name in the tree other than `name`."""
        return self._still and set(self._stock.names.get(copy.source.inode, ())) <= {name}

    def _remove(self, name: bytes) -> None:
        self._target.remove(name, self._placed.copies[name])
        self._placed.gone(name)
        self.gone += 1

    def _remove_the_rest(self) -> None:
        """Removes placed files that have no name in the tree, if that is certain."""
        if not self._still:
            return
        for name in [each for each in list(self._placed.copies) if each not in self._wanted]:
            self._check()
            copy = self._placed.copies.get(name)
            if copy is not None and self._is_waited_for(copy):
                continue  # its bytes must first be placed under another name
            try:
                if copy is not None:  # otherwise it belongs to another rank by now
                    self._remove(name)
            except OSError as error:
                self.result.failed[name] = f"could not be removed: {error.strerror}"
        for name in sorted(self._placed.directories - self._stock.directories.keys(), reverse=True):
            self._check()
            if self._target.remove_directory(name):  # otherwise it is removed after its content
                self._placed.directories.discard(name)

    def _is_waited_for(self, copy: Copy) -> bool:
        """Returns whether a file waits to be placed of which this copy is an older version. A file
        that was created after the copy's version last changed only got the same inode number."""
        for name in self._stock.names.get(copy.source.inode, ()):
            if name in self.result.waiting:
                born_ns = birth_ns(self._stock.files[name][0])
                if copy.source.ctime_ns == ITSELF_NS or born_ns <= copy.source.ctime_ns:
                    return True
        return False

    def _finish_directories(self) -> None:
        for name in sorted(self._stock.directories, reverse=True):
            if self._stock.is_made(name) and name in self._placed.directories:
                with suppress(OSError):
                    self._target.finish_directory(name, self._stock.directories[name])
