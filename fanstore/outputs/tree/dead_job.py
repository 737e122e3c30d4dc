"""Saves the outputs of a job whose daemon was killed. The process that cleans up runs a stage-out
pass over the tree that was left, and keeps on the node the files that the pass could not place."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fanstore._native import ffi
from fanstore.messages.job import WaitingOutputs
from fanstore.outputs.files.apart import Tell, told_apart
from fanstore.outputs.model.entries import Identity
from fanstore.outputs.tree.end import keep_the_rest, unstaged_of
from fanstore.outputs.tree.passes import GivenUpError
from fanstore.outputs.tree.placed import (
    FILE,
    Copy,
    Header,
    Placed,
    Source,
    is_discarded,
    read_header,
    read_lines,
)
from fanstore.outputs.tree.shared import shared_of
from fanstore.outputs.tree.uploads import stage_out_of
from fanstore.outputs.tree.walk import Stock, take_stock
from fanstore.wording import lines_naming

TREES = "out"  # in a job's directory: the folder of the output trees
NOT_WAITED_FOR = "not waited for"
_LOOK_S = 0.05


@dataclass
class Rescued:
    """The result for a dead job's outputs. partials: placed files that were not finished. kept:
    paths below the output directory, each with the reason why it is not there; these files are in
    `folder`, unless keeping them failed, too."""

    job_id: str
    output_dir: str
    folder: str
    placed: list[str] = field(default_factory=list)
    partials: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    stuck: bool = False


def roots_of(job_directory: str, folders: tuple[str, ...]) -> list[tuple[bytes, bytes]]:
    """Returns the roots for take_stock: for each mount, its folder below the output directory and
    its tree."""
    return [
        (os.fsencode(folder), os.fsencode(os.path.join(job_directory, TREES, str(number))))
        for number, folder in enumerate(folders)
    ]


def _header_of(job_directory: str) -> Header | None:
    return read_header(os.path.join(job_directory, FILE))


def _stock_of(job_directory: str, header: Header) -> Stock:
    return take_stock(roots_of(job_directory, header.folders), lift=False)


def left_behind(job_directory: str) -> WaitingOutputs:
    """Returns the outputs of a job that no process holds."""
    header = _header_of(job_directory)
    if header is None:
        return WaitingOutputs()
    files = _stock_of(job_directory, header).files.values()
    total_bytes = sum(found.st_size for _, found in files)
    return WaitingOutputs(waiting=len(files), waiting_bytes=total_bytes, output_dir=header.root)


def needs_rescue(job_directory: str) -> bool:
    """Returns whether a job that no process holds left outputs that must be handled. Raises OSError
    if that cannot be known; such a job is left alone."""
    header = _header_of(job_directory)
    if header is None:
        trees = os.path.join(job_directory, TREES)
        if is_discarded(os.path.join(job_directory, FILE)):
            return False
        if take_stock([(b"", os.fsencode(trees))], lift=False).files:
            raise OSError(errno.EINVAL, "there is no record of where it belongs")
        return False
    stock = _stock_of(job_directory, header)
    made = any(stock.is_made(each) for each in stock.directories)
    begun = any(True for _ in read_lines(os.path.join(job_directory, FILE)))
    return bool(stock.files or stock.links or made or stock.unreadable or stock.hidden or begun)


def rescue(job_directory: str, given_up: Callable[[], bool] = lambda: False) -> Rescued | None:
    """Places the outputs that a dead job left. Once `given_up` returns true, stops and keeps the
    others on the node. Returns None if there was nothing to do. The caller holds the job's lock."""
    header = _header_of(job_directory)
    if header is None or not needs_rescue(job_directory):
        return None
    folder = unstaged_of(job_directory)
    done = Rescued(header.job_id, header.root, folder)
    job = _DeadJob(job_directory, header)
    for told in told_apart(job.place, given_up):
        job.hear(told, done)
    kept = keep_the_rest(job.roots, job.placed, job.shared, job.reason, folder)
    done.kept, done.stuck = kept.files, not kept.whole
    job.close()
    return done


def _watch(given_up: Callable[[], bool], ended: Any) -> None:
    while not given_up():
        time.sleep(_LOOK_S)
    ended[0] = 1


class _DeadJob:
    """The state of a dead job in the process that waits for another process to place the outputs.
    That one may hang, so this process never accesses the output directory."""

    def __init__(self, job_directory: str, header: Header) -> None:
        self.roots = roots_of(job_directory, header.folders)
        self.placed = Placed(os.path.join(job_directory, FILE), header)
        self.shared = shared_of(job_directory)
        self._header = header
        self._why: dict[str, str] = {}

    def close(self) -> None:
        """Closes the record and the segment that the job left."""
        self.placed.close()
        if self.shared is not None:
            self.shared.close()

    def reason(self, name: bytes) -> str:
        """Returns why a name was not placed."""
        return self._why.get(os.fsdecode(name)) or self._why.get("", NOT_WAITED_FOR)

    def place(self, tell: Tell, given_up: Callable[[], bool]) -> None:
        """In the other process: runs a pass, and passes to `tell` the files that it placed, and
        those that it could not place."""
        ended = ffi.new("int32_t *")
        threading.Thread(target=_watch, args=(given_up, ended), daemon=True).start()
        # told_apart closed its file in this process.
        self.placed = Placed(self.placed.path, self._header)
        target, stage_out = stage_out_of(self._header, self.roots, self.placed, self.shared, ended)
        why = ""
        try:
            self.placed.take_over(target.look)
        except OSError as error:  # nobody knows what is placed: then nothing may be decided
            why = str(error.strerror)
        known = dict(self.placed.copies)
        stage_out.each = lambda name, partial: tell(
            ["placed", os.fsdecode(name), self._told(name), partial]
        )
        for name in known:
            tell(["known", os.fsdecode(name), self._told(name), False])
        if why:
            tell(["failed", "", why, False])
            return
        with suppress(GivenUpError):
            result = stage_out.run(last=True, force=True)
            for name, why in result.failed.items():
                tell(["failed", os.fsdecode(name), why, False])
            for name in result.busy:
                tell(["failed", os.fsdecode(name), "somebody is still writing it", False])
            with suppress(OSError):
                target.sync()
            target.clear_scratch(list(self.placed.copies))
            tell(["ended", "", "", False])

    def _told(self, name: bytes) -> list[list[int]]:
        copy = self.placed.copies[name]
        return [list(copy.source), list(copy.identity)]

    def hear(self, told: list[object], done: Rescued) -> None:
        """Handles a message from the other process."""
        kind, name, what, partial = told
        assert isinstance(name, str)
        if kind == "failed":
            self._why[name] = str(what)
        elif isinstance(what, list) and what:
            self.placed.done(os.fsencode(name), Copy(Source(*what[0]), Identity(*what[1])))
            if kind == "placed":
                (done.partials if partial else done.placed).append(name)


def rescue_lines(rescued: Rescued) -> list[str]:
    """Returns lines for people about the outputs of a dead job."""
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
