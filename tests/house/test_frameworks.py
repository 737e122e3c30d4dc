"""The page of tried frameworks: of the programs that are there, and as they do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "frameworks.py"
LIMIT_S = 300


def test_the_page_has_a_row_for_each_program() -> None:
    programs = [*(ROOT / "tools" / "frameworks").glob("*.py"), *TOOL.with_suffix("").glob("*.sh")]
    names = {path.stem for path in programs} - {"case"}
    page = (ROOT / "docs" / "frameworks.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == names


def test_programs_do_as_the_page_says() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--check", "find", "sqlite_database"],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
