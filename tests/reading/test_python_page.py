"""docs/python.md and the example of tables say what is so."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_page_shows_what_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fsspec")
    source = tmp_path / "flowers"
    for number, name in enumerate(("rose/1", "rose/2", "tulip/1", "tulip/2")):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / f"{name}.jpg").write_bytes(bytes([21]) * (3000 + number))
    (source / "labels.csv").write_text("name,label\nrose/1.jpg,rose\n")
    prepare = [sys.executable, "-m", "fanstore", "prepare", "--quiet", source, "flowers.fan"]
    subprocess.run(prepare, check=True, cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    page = str(ROOT / "docs" / "python.md")
    failed, tried = doctest.testfile(
        page, module_relative=False, optionflags=flags, globs={"os": os}
    )
    assert (failed, tried > 30) == (0, True)


def test_example_reads_tables() -> None:
    for module in ("dask.dataframe", "fsspec", "pandas"):
        pytest.importorskip(module)
    command = [sys.executable, str(ROOT / "examples" / "tables.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "sold in the first quarter: 4095" in done.stdout
    assert "sold in the year: 40950" in done.stdout
