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
    Identity,
    Ledger,
    Lone,
    read_journal,
)
from fanstore.outputs.stageout.placing import OutputDirectory
from fanstore.outputs.stageout.unstaged import NAMELESS, Left, keep, left_of, unstaged_of
from fanstore.wording import lines_naming

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
    with contextlib.suppress(OSError):
        job = _DeadJob.find(job_directory)
        if job is not None:
            sizes = [job.size(each.object_id) or 0 for each in job.left if each.lone is None]
            return len(sizes), sum(sizes), os.fsdecode(job.header.root)
    return None


def needs_rescue(job_directory: str) -> bool:
    """Tells whether a job that nobody holds left something to do about its outputs. Raises OSError
    where that cannot be known: such a job is left alone."""
    job = _DeadJob.find(job_directory)
    return job is not None and bool(job.ledger.stale or job.left)


def rescue(job_directory: str, given_up: Callable[[], bool] = lambda: False) -> Rescued | None:
    """Places what a dead job published and did not place; `given_up` ends that, and the rest is
    kept. Returns None where there was nothing to do. The caller holds the job's lock."""
    job = _DeadJob.find(job_directory)
    if job is None:
        return None
    told = {turn: (reason, shown) for turn, reason, shown in told_apart(job.place, given_up)}
    root, folder = os.fsdecode(job.header.root), unstaged_of(job_directory)
    done = Rescued(job.header.job_id, root, folder)
    rest: list[tuple[Left, str]] = []
    for turn, each in enumerate(job.left):
        reason, shown = told.get(turn, (NOT_WAITED_FOR, ""))
        if reason is not None:
            rest.append((each, reason))
        elif each.lone is None:
            (done.partials if each.partial else done.placed).append(shown)
    kept, kept_all = keep(rest, folder, OutputDirectory(job.header), job.path_of)
    done.kept = [(path, why) for _, path, why in kept]
    done.stuck = not kept_all
    if kept_all:
        os.unlink(os.path.join(job_directory, JOURNAL))
    return done


class _DeadJob:
    """What a job left that nobody holds, and how it comes into the output directory. left: what is
    not there; looked for once, since somebody may write to a partial output even now."""

    def __init__(self, path: str, header: Header, ledger: Ledger) -> None:
        self.path_of = partial(object_file, path)
        self._directory = OutputDirectory(header)
        self._given_up: Callable[[], bool] = lambda: False
        self.header = header
        self.ledger = ledger
        self.left = left_of(ledger, ledger.all_lone(), self.size)

    @staticmethod
    def find(path: str) -> _DeadJob | None:
        """Returns what a job left, None where that is no journal. Raises OSError."""
        found = None
        with contextlib.suppress(FileNotFoundError):
            found = read_journal(os.path.join(path, JOURNAL))
        if found is None:
            return None
        header, ledger = found
        with contextlib.suppress(OSError):  # there was no such segment
            rank, log = left_in(os.path.join(path, NAMES))
            for change in log:
                if change.rank == rank:
                    _follow_object(ledger, change)
                if not change.elsewhere:
                    _follow_name(ledger, change)
        return _DeadJob(path, header, ledger)

    def size(self, object_id: int) -> int | None:
        """Returns the size of an object's file in bytes, None where there is none."""
        with contextlib.suppress(OSError):
            return os.lstat(self.path_of(object_id)).st_size
        return None

    def place(self, tell: Tell, given_up: Callable[[], bool]) -> None:
        """Places all that is left, and removes what belongs there no more; tells for each why that
        could not be done, or None, and where it is."""
        self._given_up = given_up
        for turn, each in enumerate(self.left):
            try:
                self._advance(0)
                if each.name == NAMELESS:
                    raise OSError(errno.ENOENT, "only the daemon knew its name")
                name = self._partial(each) if each.partial else each.name
                self._place(each, name)
                tell((turn, None, self._directory.shown(name)))
            except OSError as error:
                tell((turn, str(error.strerror), ""))
        published = {each.name for each in self.ledger.named.values()}
        for name, identity in self.ledger.stale.items():
            if name not in published:
                with contextlib.suppress(OSError):
                    self._directory.remove_file(name, identity)
        self._directory.clear_scratch()

    def _partial(self, each: Left) -> Place:
        """Returns a free name that says that the file is not whole, or the one that it has been
        given already."""
        for path in partial_paths(os.fsdecode(each.name.path)):
            name = split(each.name.mount, os.fsencode(path))
            if not os.path.lexists(self._directory.path(name)) or self._is_there(each, name):
                return name
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    def _place(self, each: Left, name: Place) -> None:
        directory, lone, mine = self._directory, each.lone, self.ledger.stale.get(name)
        if lone is not None and lone.is_directory:
            directory.place_directory(name, lone.mode, mine)
        elif not self._is_there(each, name):
            self._refuse_newer(name, mine)
            if lone is not None:
                temporary = directory.make_link(lone.target, 0)
            else:
                temporary = self._copy(each.object_id)
            directory.place_files([(temporary, name, mine)], [], ffi.new("int32_t *"))
            placed = self.ledger.placed(each.object_id)
            if placed is not None:
                directory.remove_file(placed.name, placed.identity)

    def _is_there(self, each: Left, name: Place) -> bool:
        """Tells whether it came there before, and the daemon was killed before it noted that."""
        source, path = self.path_of(each.object_id), self._directory.path(name)
        with contextlib.suppress(OSError):
            if each.lone is not None:
                return os.readlink(path) == each.lone.target
            facts = [os.lstat(file) for file in (source, path)]
            same = len({(found.st_mode, found.st_size, found.st_mtime_ns) for found in facts}) == 1
            return same and filecmp.cmp(source, path, shallow=False)
        return False

    def _refuse_newer(self, name: Place, mine: Identity | None) -> None:
        """Raises where something came there while the job ran that is not known as its own: that
        stays."""
        try:
            found = os.lstat(self._directory.path(name))
        except OSError:
            return
        own = mine is not None and mine.inode == found.st_ino
        if not own and found.st_ctime_ns >= self.header.started_ns:
            raise FileExistsError(errno.EEXIST, "something newer is there")

    def _copy(self, object_id: int) -> bytes:
        """Returns the path of a copy in the scratch directory."""
        source = self.path_of(object_id)
        attr = Attr.of(os.lstat(source))
        (temporary,) = self._directory.scratch([object_id])
        placed = self.ledger.placed(object_id)
        if placed is None or not link_again(
            self._directory.path(placed.name), placed.identity, attr, temporary
        ):
            copy_object(source, temporary, attr, self._advance)
        return temporary

    def _advance(self, _: int) -> None:
        if self._given_up():
            raise OSError(errno.ECANCELED, NOT_WAITED_FOR)


def _follow_object(ledger: Ledger, change: Change) -> None:
    """Notes what a program of this rank did with an object, and the daemon had no time to note."""
    object_id, known = change.object_id, ledger.named.get(change.object_id)
    if change.kind == changes.CREATED:
        ledger.draft(object_id, change.place)
    elif change.kind == changes.PUBLISHED and not change.elsewhere:
        ledger.name(object_id, change.place, change.attr.size)
    elif change.kind == changes.PUBLISHED and known is None:
        place = ledger.drafts.get(object_id, NAMELESS)  # a daemon that keeps no drafts notes none
        ledger.name(object_id, place, change.attr.size)
    elif change.kind in (changes.REMOVED, changes.MOVED):
        ledger.drop(change.gone)
        if known is not None:
            ledger.name(object_id, change.to, known.size)


def _follow_name(ledger: Ledger, change: Change) -> None:
    """Notes what a program did with the name of a directory or link that this rank keeps."""
    name, lone = change.place, ledger.lone_at(change.place)
    if change.kind == changes.MADE:
        ledger.set_lone(name, Lone(change.attr.mode, b""))
    elif change.kind == changes.ALTERED and lone is not None:
        ledger.set_lone(name, Lone(change.attr.mode, lone.target))
    elif change.kind == changes.MOVED:
        ledger.set_lone(change.to, lone)
    if change.kind in (changes.REMOVED, changes.MOVED):
        ledger.set_lone(name, None)


def rescue_lines(rescued: Rescued) -> list[str]:
    """Returns the lines that tell people what became of a dead job's outputs."""
    lines, partials = [], rescued.partials
    kept = [": ".join(each) for each in rescued.kept]
    if rescued.placed:
        lines.append(
            f"job {rescued.job_id} was killed: {len(rescued.placed):,} outputs of it are in "
            f"{rescued.output_dir} now"
        )
    unfinished = f"in {rescued.output_dir}, but not finished when its job was killed"
    lines += lines_naming(unfinished, partials, len(partials))
    lines += lines_naming(f"not in {rescued.output_dir}", kept, len(kept))
    if kept and not rescued.stuck:
        lines.append(f"kept in {rescued.folder}")
    return lines
