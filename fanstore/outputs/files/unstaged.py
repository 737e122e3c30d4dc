"""Keeps outputs that are not in the output directory on the node, under `unstaged`, which no sweep
removes."""

from __future__ import annotations

import contextlib
import os
import stat

from fanstore.outputs.files.copying import copy_object
from fanstore.outputs.files.files import facts_of
from fanstore.outputs.model.entries import Attr

UNSTAGED = "unstaged"


def unstaged_of(job_directory: str) -> str:
    """Returns the folder for a job's unstaged outputs, beside the folder of all jobs."""
    base = os.path.dirname(os.path.dirname(job_directory))
    return os.path.join(base, UNSTAGED, os.path.basename(job_directory))


def keep_object(source: bytes, folder: str, relative: str) -> None:
    """Moves a file to its place in the folder of unstaged outputs. Raises OSError."""
    path = free_path(os.path.join(folder, relative))
    try:
        os.rename(source, path)
    except OSError:  # another file system, or a folder from which this user may not rename
        copy_object(source, os.fsencode(path), Attr.of(facts_of(source)), lambda _: None)
    found = os.stat(path)
    os.chmod(path, stat.S_IMODE(found.st_mode) | stat.S_IRUSR)


def free_path(path: str) -> str:
    """Returns the path, or one like it if something is in the way; makes its directories."""
    for number in range(1000):
        candidate = path if number == 0 else f"{path}.{number}"
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            os.makedirs(os.path.dirname(candidate), 0o700, exist_ok=True)
            if not os.path.lexists(candidate):
                return candidate
    raise FileExistsError(path)
