"""Saves the outputs of a job whose daemon was killed: whoever cleans up after it puts them into the
output directory, or else keeps them on the node."""

from __future__ import annotations

import contextlib
import errno
import filecmp
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from fanstore._native import ffi
from fanstore.outputs.model import changes
from fanstore.outputs.model.changes import Change, left_in
from fanstore.outputs.model.entries import OBJECTS, Attr, Place, file_of, split
from fanstore.outputs.model.partial import partial_paths
from fanstore.outputs.model.segment import FILE as NAMES
from fanstore.outputs.stageout.apart import Tell, told_apart
from fanstore.outputs.stageout.copying import copy_object, link_again
from fanstore.outputs.stageout.journal import (
    JOURNAL,
    Header,
    Ledger,
    Lone,
    read_journal,
)
from fanstore.outputs.stageout.placing import OutputDirectory
from fanstore.outputs.stageout.unstaged import Left, keep, left_of, unstaged_of

LINES_SHOWN = 20
NOT_WAITED_FOR = "not waited for"


@dataclass
class Rescued:
    """What became of a dead job's outputs. partials: those placed that nobody has finished. kept:
    path below the output directory, and why it is not there; all of these are in `folder`, unless
    that failed, too."""

    job_id: str
    output_dir: str
    folder: str
    placed: list[str] = field(default_factory=list)
    partials: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    stuck: bool = False


def object_file(job_directory: str, object_id: int) -> bytes:
    """Returns the path of an object's file in a job's directory."""
    return os.path.join(os.fsencode(job_directory), OBJECTS.encode(), file_of(object_id))


def left_behind(job_directory: str) -> tuple[int, int, str] | None:
    """Returns what a job that nobody holds did not place of its outputs: files, bytes, and where
    they belong. None: it left no journal, or none that can be read."""
    found = None
    with contextlib.suppress(OSError):
        found = _read(job_directory)
    if found is None:
        return None
    header, ledger = found
    sizes = [
        _size(job_directory, each.object_id) or 0
        for each in _left(job_directory, ledger)
        if each.lone is None
    ]
    return len(sizes), sum(sizes), os.fsdecode(header.root)


def needs_rescue(job_directory: str) -> bool:
    """Tells whether a job that nobody holds left something to do about its outputs. Raises OSError
    where that cannot be known: such a job is left alone."""
    found = _read(job_directory)
    if found is None:
        return False
    _, ledger = found
    return bool(ledger.stale or _left(job_directory, ledger))


def _read(job_directory: str) -> tuple[Header, Ledger] | None:
    found = None
    with contextlib.suppress(FileNotFoundError):
        found = read_journal(os.path.join(job_directory, JOURNAL))
    if found is not None:
        with contextlib.suppress(OSError):  # there was no such segment
            rank, log = left_in(os.path.join(job_directory, NAMES))
            for change in log:
                if change.rank == rank:
                    _follow_object(found[1], change)
                if not change.elsewhere:
                    _follow_name(found[1], change)
    return found


def _follow_object(ledger: Ledger, change: Change) -> None:
    """Notes what a program of this rank did with an object, and the daemon had no time to note."""
    name = change.place
    if change.kind == changes.CREATED:
        ledger.draft(change.object_id, name)
    elif change.kind == changes.PUBLISHED:
        if change.elsewhere:
            name = ledger.drafts.get(change.object_id, name)
        if not (change.elsewhere and change.object_id in ledger.named):
            ledger.name(change.object_id, name, change.attr.size)
    elif change.kind in (changes.REMOVED, changes.MOVED):
        ledger.drop(change.gone)
        known = ledger.named.get(change.object_id)
        if known is not None:
            ledger.name(change.object_id, change.to, known.size)


def _follow_name(ledger: Ledger, change: Change) -> None:
    """Notes what a program did with the name of a directory or link that this rank keeps."""
    name, lone = change.place, ledger.lone_at(change.place)
    if change.kind == changes.MADE:
        ledger.set_lone(name, Lone(change.attr.mode, None))
    elif change.kind == changes.ALTERED and lone is not None:
        ledger.set_lone(name, Lone(change.attr.mode, lone.target))
    elif change.kind == changes.MOVED:
        ledger.set_lone(change.to, lone)
    if change.kind in (changes.REMOVED, changes.MOVED):
        ledger.set_lone(name, None)


def rescue(job_directory: str, given_up: Callable[[], bool] = lambda: False) -> Rescued | None:
    """Places what a dead job published and did not place; `given_up` ends that, and the rest is
    kept. Returns None where there was nothing to do. The caller holds the job's lock."""
    found = _read(job_directory)
    if found is None:
        return None
    header, ledger = found
    left = _left(job_directory, ledger)  # once: somebody may write to a partial output even now
    placer = _Placer(job_directory, header, ledger, left)
    told = {turn: (reason, shown) for turn, reason, shown in told_apart(placer.run, given_up)}
    done = Rescued(header.job_id, os.fsdecode(header.root), unstaged_of(job_directory))
    rest: list[tuple[Left, str]] = []
    for turn, each in enumerate(left):
        reason, shown = told.get(turn, (NOT_WAITED_FOR, ""))
        if reason is not None:
            rest.append((each, reason))
        elif each.lone is None:
            (done.partials if each.partial else done.placed).append(shown)
    directory = OutputDirectory(header)
    done.kept, kept_all = keep(rest, done.folder, directory, partial(object_file, job_directory))
    done.stuck = not kept_all
    if kept_all:
        os.unlink(os.path.join(job_directory, JOURNAL))
    return done


def _left(job_directory: str, ledger: Ledger) -> list[Left]:
    return left_of(ledger, ledger.all_lone(), partial(_size, job_directory))


def _size(job_directory: str, object_id: int) -> int | None:
    """Returns the size of an object's file in bytes, None where there is none."""
    with contextlib.suppress(OSError):
        return os.lstat(object_file(job_directory, object_id)).st_size
    return None


class _Placer:
    """Places in the output directory what a dead job published, and notes what it could not."""

    def __init__(
        self, job_directory: str, header: Header, ledger: Ledger, left: list[Left]
    ) -> None:
        self._job_directory = job_directory
        self._header = header
        self._ledger = ledger
        self._left = left
        self._given_up: Callable[[], bool] = lambda: False
        self._directory = OutputDirectory(header)

    def run(self, tell: Tell, given_up: Callable[[], bool]) -> None:
        """Places all; tells for each why that could not be done, or None, and where it is."""
        self._given_up = given_up
        for turn, each in enumerate(self._left):
            try:
                self._advance(0)
                name = self._partial(each) if each.partial else each.name
                if each.lone is not None:
                    self._make_lone(name, each.lone)
                else:
                    self._place(each.object_id, name)
                tell((turn, None, self._directory.shown(name)))
            except OSError as error:
                tell((turn, str(error.strerror), ""))
        names = {each.name for each in self._ledger.named.values()}
        for name, identity in self._ledger.stale.items():
            if name not in names:
                with contextlib.suppress(OSError):
                    self._directory.remove_file(name, identity)
        self._directory.clear_scratch()

    def _partial(self, each: Left) -> Place:
        """Returns a free name that says that the file is not whole, or the one that it has been
        given already."""
        source = object_file(self._job_directory, each.object_id)
        for path in partial_paths(os.fsdecode(each.name.path)):
            name = split(each.name.mount, os.fsencode(path))
            if not os.path.lexists(self._directory.path(name)) or self._is_there(source, name):
                return name
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    def _make_lone(self, name: Place, lone: Lone) -> None:
        path, mine = self._directory.path(name), self._ledger.stale.get(name)
        if lone.target is None:
            self._directory.place_directory(name, lone.mode, mine)
        elif not (os.path.islink(path) and os.readlink(path) == lone.target):
            self._refuse_newer(name)
            self._name(self._directory.make_link(lone.target, 0), name)

    def _place(self, object_id: int, name: Place) -> None:
        source = object_file(self._job_directory, object_id)
        if self._is_there(source, name):
            return
        self._refuse_newer(name)
        attr = Attr.of(os.lstat(source))
        (temporary,) = self._directory.scratch([object_id])
        placed = self._ledger.placed(object_id)
        linked = placed is not None and link_again(
            self._directory.path(placed.name), placed.identity, attr, temporary
        )
        if not linked:
            copy_object(source, temporary, attr, self._advance)
        self._name(temporary, name)
        if placed is not None:
            self._directory.remove_file(placed.name, placed.identity)

    def _name(self, temporary: bytes, name: Place) -> None:
        mine = self._ledger.stale.get(name)
        self._directory.place_files([(temporary, name, mine)], [], ffi.new("int32_t *"))

    def _is_there(self, source: bytes, name: Place) -> bool:
        """Tells whether the copy came there before, and the daemon was killed before it noted
        that."""
        path = self._directory.path(name)
        with contextlib.suppress(OSError):
            facts = [os.lstat(each) for each in (source, path)]
            same = len({(each.st_mode, each.st_size, each.st_mtime_ns) for each in facts}) == 1
            return same and filecmp.cmp(source, path, shallow=False)
        return False

    def _refuse_newer(self, name: Place) -> None:
        """Raises where something came there while the job ran that is not known as its own: that
        stays."""
        try:
            found = os.lstat(self._directory.path(name))
        except OSError:
            return
        mine = self._ledger.stale.get(name)
        own = mine is not None and mine.inode == found.st_ino
        if not own and found.st_ctime_ns >= self._header.started_ns:
            raise FileExistsError(errno.EEXIST, "something newer is there")

    def _advance(self, _: int) -> None:
        if self._given_up():
            raise OSError(errno.ECANCELED, NOT_WAITED_FOR)


def rescue_lines(rescued: Rescued) -> list[str]:
    """Returns the lines that tell people what became of a dead job's outputs."""
    lines = []
    if rescued.placed:
        lines.append(
            f"job {rescued.job_id} was killed: {len(rescued.placed):,} outputs of it are in "
            f"{rescued.output_dir} now"
        )
    unfinished = f"in {rescued.output_dir}, but not finished when its job was killed"
    lines += _listed(unfinished, rescued.partials)
    lines += _listed(f"not in {rescued.output_dir}", [": ".join(each) for each in rescued.kept])
    if rescued.kept and not rescued.stuck:
        lines.append(f"kept in {rescued.folder}")
    return lines


def _listed(start: str, names: list[str]) -> list[str]:
    lines = [f"{start}: {name}" for name in names[:LINES_SHOWN]]
    rest = len(names) - LINES_SHOWN
    return lines if rest <= 0 else [*lines, f"{start}: {rest:,} more"]
