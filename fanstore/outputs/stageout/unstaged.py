"""Keeps outputs that could not be placed on the node, under `unstaged`, which no sweep removes."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat

UNSTAGED = "unstaged"


def unstaged_of(job_directory: str) -> str:
    """Returns the folder in which a job keeps them, beside the folder of all jobs."""
    base = os.path.dirname(os.path.dirname(job_directory))
    return os.path.join(base, UNSTAGED, os.path.basename(job_directory))


def keep_object(source: bytes, folder: str, relative: str) -> str:
    """Moves an object's file into the folder; returns its new path. Raises OSError."""
    path = _free(os.path.join(folder, relative))
    try:
        os.rename(source, path)
    except OSError:  # another file system, or a folder that others may not rename from
        _copy(source, os.fsencode(path))
    found = os.stat(path)
    os.chmod(path, stat.S_IMODE(found.st_mode) | stat.S_IRUSR)
    return path


def _copy(source: bytes, path: bytes) -> None:
    """Copies all of a file, or leaves nothing."""
    try:
        shutil.copy2(source, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise


def keep_link(target: bytes, folder: str, relative: str) -> str:
    """Makes a symbolic link in the folder; returns its path. Raises OSError."""
    path = _free(os.path.join(folder, relative))
    os.symlink(target, os.fsencode(path))
    return path


def _free(path: str) -> str:
    """Returns the path, with its directories made, or one like it where something is in the way."""
    for number in range(1000):
        candidate = path if number == 0 else f"{path}.{number}"
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            os.makedirs(os.path.dirname(candidate), 0o700, exist_ok=True)
            if not os.path.lexists(candidate):
                return candidate
    raise FileExistsError(path)
