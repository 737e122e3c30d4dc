"""Stage-out to a bucket. An object is written at once under its own name, because nothing can be
renamed there; it appears when it is whole. Modes, times, links and empty directories do not come
there."""

from __future__ import annotations

import errno
import os
import stat
from functools import partial
from typing import Any

from fanstore.buckets.address import is_address
from fanstore.buckets.bucket import Bucket
from fanstore.buckets.patience import BucketRefused
from fanstore.buckets.writing import Content, FoundObject, NameTaken, Writer
from fanstore.outputs.files.files import open_unasked
from fanstore.outputs.model.entries import Identity
from fanstore.outputs.tree.passes import StageOut, Todo
from fanstore.outputs.tree.placed import Copy, Header, Placed
from fanstore.outputs.tree.shared import Shared
from fanstore.outputs.tree.target import Target


class BucketTarget(Target):
    """The output directory in a bucket. Of an object's identity the inode is its mark, and the time
    is 0. Calls raise BucketRefused."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self.writer = Writer(Bucket(header.root))
        self._tried: dict[bytes, set[int]] = {}  # marks of objects that may be there

    def look(self, name: bytes) -> os.stat_result | None:
        """Returns the mark and the size of an object; None if none is there. Raises OSError if
        nobody can tell."""
        try:
            found = self.writer.find(_text(name))
        except BucketRefused as error:
            raise OSError(errno.EIO, str(error)) from error
        return None if found is None else _stat(found)

    def write(self, name: bytes, content: Content, mine: Copy | None) -> bool:
        """Writes a file's content, as Writer.write does. mine: the older version that it may
        replace."""
        tried = self._tried.setdefault(name, set())

        def is_own(found: FoundObject) -> bool:
            return found.mark in tried or self._placed(_stat(found), name, mine) is not None

        tried.add(content.mark)
        return self.writer.write(_text(name), content, is_own, look=mine is not None)

    def remove(self, name: bytes, mine: Copy) -> None:
        """Removes an object that was placed; leaves any other alone. Raises OSError."""
        try:
            found = self.writer.find(_text(name))
            if found is not None and Identity.of(_stat(found)) == mine.identity:
                self.writer.remove(_text(name), found.etag)
        except BucketRefused as error:
            raise OSError(errno.EIO, str(error)) from error


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _stat(found: FoundObject) -> os.stat_result:
    fields = (stat.S_IFREG | 0o644, found.mark, 0, 1, 0, 0, found.size, 0, 0, 0)
    return os.stat_result(fields, {"st_mtime_ns": 0})


class Uploads(StageOut):
    """Places outputs in a bucket, as StageOut does in a directory."""

    _target: BucketTarget

    def _make_directories(self) -> None:
        """Does nothing: an object makes the directories through which its key leads."""

    def _place(self, todo: list[Todo], last: bool) -> None:
        """Writes one object after the other, so that they appear in their order; large ones in
        several parts at a time."""
        for number, each in enumerate(todo):
            self._check()
            try:
                self._upload(each)
            except OSError as error:
                self._fail(each.name, error, each.path)
            except BucketRefused as error:
                if error.passing:
                    if not self._force:  # later ones wait for it, because of their order
                        raise OSError(errno.EIO, str(error)) from error
                    self._target.writer.hurry()
                # After an answer the next one may be taken, but not if nothing answers.
                refused = todo[number : number + 1 if error.status else None]
                self.result.failed.update((other.name, str(error)) for other in refused)
                if not error.status:
                    return

    def _upload(self, todo: Todo) -> None:
        if todo.is_link or os.fsdecode(todo.name) != todo.name.decode("utf-8", "replace"):
            raise OSError(errno.EPERM, "a bucket has no links, and no names other than UTF-8")
        if not self._is_settled(todo):
            return
        size, mark = todo.found.st_size, int.from_bytes(os.urandom(8), "big") >> 1
        copy = Copy(todo.source, Identity(mark, size, 0))
        mine = self._placed.copies.get(todo.name)
        self._placed.intend([(todo.name, copy)])
        settled = partial(self._is_settled, todo)
        with open_unasked(todo.path) as file:
            content = Content(file.fileno(), size, mark, self._advance, settled)
            try:
                is_there = self._target.write(todo.name, content, mine)
            except NameTaken:
                why = "an object of this name was there already"
                raise OSError(errno.EPERM, why) from None
            if is_there:
                self.gone += mine is not None
                self._is_done(todo, copy)


def stage_out_of(
    header: Header, roots: list[tuple[bytes, bytes]], placed: Placed, shared: Shared | None,
    ended: Any,
) -> tuple[Target, StageOut]:  # fmt: skip
    """Returns the output directory of a job, which may be in a bucket, and the stage-out to it."""
    if is_address(header.root):
        bucket = BucketTarget(header)
        return bucket, Uploads(roots, bucket, placed, shared, ended)
    target = Target(header)
    return target, StageOut(roots, target, placed, shared, ended)
