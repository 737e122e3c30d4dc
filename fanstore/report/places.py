"""Where a report goes, and whether there can be one: what a job checks before it begins."""

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
    """Returns where the page of a report goes; JSON goes beside it, and in a job the trace. named:
    a file that ends in .html, or a directory, which need not be there yet. Raises UsageError where
    nothing can be written."""
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
    """Makes a directory with those above it; returns the ones that were made, the innermost first.
    Raises OSError, and leaves none of them then."""
    missing = [each for each in (folder, *folder.parents) if not os.path.lexists(each)]
    made: list[Path] = []
    try:
        for each in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another rank was quicker
                each.mkdir()
                made.insert(0, each)
    except OSError:
        remove_empty(made)
        raise
    return made


def remove_empty(folders: Iterable[Path]) -> None:
    """Removes those directories in which nothing is."""
    for each in folders:
        with contextlib.suppress(OSError):
            each.rmdir()


def can_draw() -> bool:
    """Tells whether matplotlib is there."""
    return importlib.util.find_spec("matplotlib") is not None
