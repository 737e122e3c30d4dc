"""The documentation agrees with what it describes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from fanstore import exit_codes

ROOT = Path(__file__).resolve().parent.parent


def test_table_of_calls_is_up_to_date() -> None:
    command = [sys.executable, ROOT / "tools" / "posix_table.py", "--check"]
    assert subprocess.run(command).returncode == 0


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_exit_codes_are_those_of_the_definition() -> None:
    command = [sys.executable, "-m", "fanstore", "run", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    assert exit_codes.markdown() in (ROOT / "docs" / "jobs.md").read_text()
    for code, meaning in exit_codes.TABLE:
        assert meaning in re.sub(r"\s+", " ", shown)
        assert re.search(rf"^  +{re.escape(code)} ", shown, re.MULTILINE)
    assert re.sub(r"\s+", " ", exit_codes.COLLISIONS) in re.sub(r"\s+", " ", shown)
