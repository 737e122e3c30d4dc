"""Finds and removes what jobs left below a local directory and no process uses.

Follows the rules of `sweep`, and also removes datasets that --keep-staged kept for the next job."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fanstore.node.job_directory import clean_up, rescue_dead
from fanstore.node.prefix import prefix_of
from fanstore.outputs.tree.dead_job import left_behind, needs_rescue, rescue_lines
from fanstore.outputs.tree.end import unstaged_of
from fanstore.staging import locks
from fanstore.staging.base import StagingFolder
from fanstore.staging.staged import KEEP
from fanstore.trees import bottom_up

_JOB = "job"
_DATASET = "staged dataset"
_UNSTAGED = "unstaged outputs"
_IN_USE = "a job uses it"
_BLOCK_BYTES = 512  # the unit of st_blocks, stat(2)


@dataclass(frozen=True)
class Leftover:
    """Something that a job left below the local directory. reason: why it stays, "" if it is
    removed."""

    what: str
    path: str
    bytes: int
    reason: str = ""

    def verb(self, dry_run: bool) -> str:
        """Returns a verb for people: what happens to the leftover."""
        if self.reason:
            return "kept"
        return "would be removed" if dry_run else "removed"


@dataclass
class Found:
    """What jobs left, and the lines to print about their outputs."""

    directory: str
    leftovers: list[Leftover] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    is_short_of_outputs: bool = False


class Cleaner:
    """Lists and removes leftovers below one local directory. with_unstaged: also removes outputs of
    which there is no other copy."""

    def __init__(self, local_dir: str, with_unstaged: bool) -> None:
        self._base = StagingFolder(local_dir)
        self._with_unstaged = with_unstaged

    def look(self) -> Found:
        """Returns the result that `clean` would have now. Removes nothing."""
        found = Found(self._base.path)
        if os.path.lexists(self._base.path):
            with self._base.locked():
                found.leftovers = list(self._leftovers())
        return found

    def clean(self) -> Found:
        """Removes what no job uses. Returns what it removed, and what stays and why."""
        found = Found(self._base.path)
        if not os.path.lexists(self._base.path):
            return found
        for rescued in rescue_dead(self._base):
            found.lines += rescue_lines(rescued)
            found.is_short_of_outputs |= bool(rescued.kept)
        with self._base.locked():
            found.leftovers = list(self._leftovers())
            for leftover in found.leftovers:
                if not leftover.reason:
                    self._let_go(leftover)
                elif leftover.what == _JOB and leftover.reason != _IN_USE:
                    found.is_short_of_outputs = True
        found.lines += [f"left in an old mount prefix: {name}" for name in clean_up(self._base)]
        return found

    def _let_go(self, leftover: Leftover) -> None:
        """Removes a leftover of some kinds, or releases it, so that the next `sweep` removes it;
        `sweep` alone handles all other kinds."""
        with contextlib.suppress(OSError):
            if leftover.what == _UNSTAGED:
                self._base.discard(leftover.path)
                os.rmdir(os.path.dirname(leftover.path))
            elif leftover.what == _DATASET:
                os.unlink(os.path.join(leftover.path, KEEP))

    def _leftovers(self) -> Iterator[Leftover]:
        """Yields all leftovers, each with the reason if it stays. The caller holds the base's
        lock."""
        for path in self._base.entries("jobs"):
            yield self._judged(_JOB, path, self._job_reason)
        for entry in self._base.entries("prefixes"):
            with locks.free(entry) as unused:
                if unused:
                    yield Leftover("mount prefix", prefix_of(entry), 0)
        for path in self._base.entries("datasets"):
            yield self._judged(_DATASET, path, lambda _: "")
        yield from self._unstaged()

    def _judged(self, what: str, path: str, reason: Callable[[str], str]) -> Leftover:
        with locks.free(os.path.join(path, "lock")) as unused:
            return Leftover(what, path, bytes_below(path), reason(path) if unused else _IN_USE)

    def _job_reason(self, path: str) -> str:
        try:
            if not needs_rescue(path):
                return ""
        except OSError as error:
            return f"what it wrote cannot be read: {error.strerror}"
        left = left_behind(path)
        count, where = left.waiting or 0, left.output_dir or ""
        return f"it is dead, and {count:,} of its outputs must first be copied to {where}"

    def _unstaged(self) -> Iterator[Leftover]:
        folder = os.path.dirname(unstaged_of(os.path.join(self._base.folder("jobs"), "any")))
        names = []
        with contextlib.suppress(FileNotFoundError):
            names = sorted(os.listdir(folder))
        for name in names:
            path = os.path.join(folder, name)
            with locks.free(os.path.join(self._base.folder("jobs"), name, "lock")) as unused:
                reason = self._unstaged_reason() if unused else _IN_USE
            yield Leftover(_UNSTAGED, path, bytes_below(path), reason)

    def _unstaged_reason(self) -> str:
        return "" if self._with_unstaged else "it is nowhere else; --unstaged removes it"


def bytes_below(path: str) -> int:
    """Returns how many bytes the files of a tree take on disk; holes do not count."""
    total = 0
    with contextlib.suppress(OSError):
        for directory in bottom_up(path):
            for name in directory.others:
                with contextlib.suppress(OSError):
                    found = os.stat(name, dir_fd=directory.fd, follow_symlinks=False)
                    total += min(found.st_size, found.st_blocks * _BLOCK_BYTES)
    return total
