"""Checks, before a job begins, that its report can be written to the path that the user named."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterable
from pathlib import Path

from fanstore.errors import UsageError

_PAGE = "report.html"
NO_PLOTS = "the page needs matplotlib, which is not installed: pip install 'fanstore-fs[plots]'"


def page_at(named: str | os.PathLike[str]) -> Path:
    """Returns the path of a report's page; the JSON and, in a job, the trace are written beside it.
    named: a file that ends in .html, or a directory, which need not exist. Raises UsageError if
    nothing can be written there."""
    page = Path(os.path.abspath(named))
    if page.suffix != ".html" or page.is_dir():
        page = page / _PAGE
    nearest = next(each for each in page.parents if os.path.lexists(each))
    if not nearest.is_dir():
        raise UsageError(f"report {page}: {nearest} is not a directory")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UsageError(f"report {page}: nothing can be written in {nearest}")
    if page.is_dir():
        raise UsageError(f"report {page}: that is a directory")
    return page


def make_folder(folder: Path) -> list[Path]:
    """Creates a directory and its missing parents. Returns the created ones, innermost first. If it
    fails, raises OSError and removes them again."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    made: list[Path] = []
    try:
        for each in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another rank has just created it
                each.mkdir()
                made.insert(0, each)
    except OSError:
        remove_empty(made)
        raise
    return made


def remove_empty(folders: Iterable[Path]) -> None:
    """Removes the empty ones of the directories."""
    for each in folders:
        with contextlib.suppress(OSError):
            each.rmdir()


def can_draw() -> bool:
    """Returns whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None
