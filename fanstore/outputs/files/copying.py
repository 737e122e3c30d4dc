"""Copies files to the output directory, with their holes and attributes, and syncs them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Any

from fanstore._native import ffi, lib
from fanstore.outputs.files.files import copy_file
from fanstore.outputs.files.syncing import sync_all
from fanstore.outputs.model.entries import Attr


def copy_object(
    source: bytes, temporary: bytes, attr: Attr, advance: Callable[[int], None]
) -> None:
    """Copies a file with its holes, gives the copy `attr`, and syncs it. Calls `advance` with each
    count of bytes copied; it may raise to give up. If anything is raised, no copy is left
    behind."""
    try:
        copy_file(source, temporary, attr, advance, synced=True)
    except FileExistsError:  # a killed daemon has left it
        os.unlink(temporary)
        copy_file(source, temporary, attr, advance, synced=True)


def copy_together(
    files: Sequence[tuple[bytes, bytes, Attr]], by_link: bool, ended: Any
) -> list[OSError | None]:
    """Copies small files to their temporary paths, and syncs the copies together. by_link: makes a
    hard link at each temporary path instead; the files may have any size then. ended: an int32_t;
    copying stops when it is not 0. Returns None for each file that was copied, and an OSError for
    each that was not: copy_object can copy those with holes, and those that nobody may read."""
    paths = b"".join(b"%s\0%s\0" % (source, temporary) for source, temporary, _ in files)
    copies = ffi.new("struct fan_file_copy[]", len(files))
    for copy, (_, _, attr) in zip(copies, files, strict=True):
        copy.atime_ns, copy.mtime_ns, copy.mode = attr.atime_ns, attr.mtime_ns, attr.mode
        copy.uid, copy.gid = attr.uid, attr.gid
    lib.fan_copy_files(paths, len(files), copies, by_link, ended)
    made = [copy for copy in copies if copy.error == 0]
    fds = [copy.fd for copy in made]
    for copy, problem in zip(made, sync_all(fds) if fds else [], strict=True):
        copy.error = 0 if problem is None else problem.errno or errno.EIO
    lib.fan_close_all(ffi.new("int32_t[]", fds), len(fds))
    for copy, (_, temporary, _) in zip(copies, files, strict=True):
        if copy.error and copy.fd >= 0:
            os.unlink(temporary)
    return [OSError(copy.error, os.strerror(copy.error)) if copy.error else None for copy in copies]
