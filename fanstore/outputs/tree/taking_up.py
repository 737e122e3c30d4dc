"""Continues an earlier run: puts the content of its output directory into the output trees, so that
programs see it under the mount and the job's changes replace it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress

from fanstore.outputs.files.files import copy_file
from fanstore.outputs.model.entries import Attr, Identity
from fanstore.outputs.tree.inputs import Inputs
from fanstore.outputs.tree.placed import Copy, Placed, Source
from fanstore.outputs.tree.shared import Shared
from fanstore.outputs.tree.target import Target
from fanstore.outputs.tree.walk import COUNTERPART_MODE, LINK_PREFIX

OWN = b".fanstore-"  # how FanStore's own names in an output directory begin


class TakingUp:
    """Copies an output directory into the output trees of a job that has not begun. check: raises
    to end the work."""

    def __init__(
        self, target: Target, placed: Placed, shared: Shared, check: Callable[[], None]
    ) -> None:
        self._target = target
        self._placed = placed
        self._shared = shared
        self._check = check
        self.files = self.bytes = 0

    def run(
        self, folder: bytes, root: bytes, inputs: Inputs, keeps: Callable[[bytes], bool]
    ) -> set[int]:
        """Copies the outputs of one mount, from its folder below the output directory to its tree.
        Does not copy files that have the name of an input. keeps: returns whether this rank keeps
        the names made in a directory of the dataset; it copies only those. Returns the records of
        the dataset's directories that contain some. Raises OSError."""
        touched: set[int] = set()
        waiting, made = [(b"", root)], []
        while waiting:
            path, at = waiting.pop()
            for entry in self._entries(os.path.join(folder, path)):
                self._check()
                below = os.path.join(path, entry.name)
                name, to = os.path.join(folder, below), os.path.join(at, entry.name)
                kind, record = inputs.kind(below), inputs.record(path)
                if kind == "missing" and record is not None and not keeps(path):
                    continue
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode) and kind in ("missing", "directory"):
                    made.append((to, found, kind == "directory"))
                    self._make(name, to, inputs.record(below))
                    waiting.append((below, to))
                elif kind == "missing":
                    self._bring(name, entry.path, to, found)
                else:
                    continue
                if record is not None:
                    touched.add(record)
        for to, found, is_input in reversed(made):
            mode = COUNTERPART_MODE if is_input else stat.S_IMODE(found.st_mode)
            os.utime(to, ns=(found.st_atime_ns, found.st_mtime_ns))
            os.chmod(to, mode)
        return touched

    def _entries(self, name: bytes) -> Iterator[os.DirEntry[bytes]]:
        with suppress(FileNotFoundError), os.scandir(self._target.path(name)) as entries:
            for entry in entries:
                if name or not entry.name.startswith(OWN):
                    yield entry

    def _make(self, name: bytes, to: bytes, record: int | None) -> None:
        os.mkdir(to, 0o700)
        if record is None:
            self._placed.make(name)
            self._placed.directories.add(name)

    def _bring(self, name: bytes, path: bytes, to: bytes, found: os.stat_result) -> None:
        if stat.S_ISLNK(found.st_mode):
            self._shared.expect_links()
            os.symlink(LINK_PREFIX + os.readlink(path), to)
        elif stat.S_ISREG(found.st_mode):
            copy_file(path, to, Attr.of(found), lambda _: self._check())
            self.files += 1
            self.bytes += found.st_size
        else:
            return
        copy = Copy(Source.of(os.lstat(to)), Identity.of(found))
        self._placed.intend([(name, copy)])
        self._placed.done(name, copy)
