"""Writes an analysis: JSON for programs, and a page."""

from __future__ import annotations

import json
from pathlib import Path

from fanstore.analyze.analysis import Analysis
from fanstore.analyze.verdict import cold, lines
from fanstore.whole_file import whole_file

JSON_NAME, PAGE_NAME = "analysis.json", "analysis.html"


def write_report(analysis: Analysis, out: Path) -> list[Path]:
    """Writes the report into a directory; returns what was written. Raises OSError."""
    found = cold(analysis)
    told = {
        **analysis.as_dict(),
        "verdict": list(lines(analysis)),
        "without_cache": None if found is None else found.as_dict(),
    }
    texts = {JSON_NAME: json.dumps(told, indent=1) + "\n"}
    for name, text in texts.items():
        with whole_file(out / name, force=True) as stream:
            stream.write(text.encode())
    return [out / name for name in texts]
