"""Writes an analysis: JSON for programs, and a page where matplotlib is installed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from fanstore.atomic import whole_file
from fanstore.report.places import can_draw
from fanstore.study.analyze.analysis import JSON_NAME, Analysis
from fanstore.study.analyze.gains import Gain
from fanstore.study.analyze.verdict import cold, lines

PAGE_NAME = "analysis.html"


def write_report(analysis: Analysis, gains: Sequence[Gain], out: Path) -> list[Path]:
    """Writes the report into a directory; returns what was written. Raises OSError."""
    found = cold(analysis)
    told = {
        **analysis.as_dict(),
        "verdict": list(lines(analysis)),
        "without_cache": None if found is None else found.as_dict(),
        "gains": [each.as_dict() for each in gains],
    }
    texts = {JSON_NAME: json.dumps(told, indent=1) + "\n"}
    if can_draw():
        from fanstore.study.analyze.page import page_of

        texts[PAGE_NAME] = page_of(analysis, gains)
    for name, text in texts.items():
        with whole_file(out / name, force=True) as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
    return [out / name for name in texts]
