"""Writes the files of a report, each whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fanstore.atomic import whole_file
from fanstore.report.advice import advise
from fanstore.report.catalogue import open_catalogue
from fanstore.report.document import document
from fanstore.report.places import can_draw
from fanstore.report.sampled import Gathered, gather
from fanstore.trace import read_trace


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
