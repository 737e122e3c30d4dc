"""Writes a report: where it goes, and its files, each whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fanstore.errors import UsageError
from fanstore.report.advice import advise
from fanstore.report.catalogue import open_catalogue
from fanstore.report.document import document
from fanstore.report.gathered import Gathered, gather
from fanstore.report.plots import can_draw
from fanstore.trace import read_trace
from fanstore.whole_file import whole_file

_PAGE, _JSON = "report.html", "report.json"


def places_of(named: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Returns where the page and the JSON of a report go. named: a file that ends in .html, or a
    directory, which need not be there yet. Raises UsageError where nothing can be written."""
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
    return page, page.with_suffix(".json")


def figures_of(trace: str | os.PathLike[str], directories: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the figures of a kept trace as JSON has them. directories: where the datasets are,
    in the job's order, if elsewhere than then. Raises FanstoreError or OSError."""
    read = read_trace(trace)
    with open_catalogue(read, directories) as datasets:
        got = gather(read, datasets)
        return document(got, advise(got))


def write_report(
    trace: str | os.PathLike[str], page: Path, directories: Sequence[str] = ()
) -> list[Path]:
    """Writes the report of a kept trace: a page, if matplotlib is there, and beside it JSON.
    Returns what was written. Raises FanstoreError or OSError."""
    read = read_trace(trace)
    with open_catalogue(read, directories) as datasets:
        got = gather(read, datasets)
        texts = _texts(got, page)
    page.parent.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        with whole_file(path, force=True) as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
    return list(texts)


def _texts(got: Gathered, page: Path) -> dict[Path, str]:
    advice = advise(got)
    made = {page.with_suffix(".json"): json.dumps(document(got, advice), indent=1) + "\n"}
    if can_draw():
        from fanstore.report.page import page_of

        made = {page: page_of(got, advice), **made}
    return made
