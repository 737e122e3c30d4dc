"""The tests in C (tests/c) pass without sanitizers, too: `make test-c` runs them at once, and `make
asan tsan` with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600


@pytest.mark.soak
def test_all() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "fuzz" / "build.py", "--sanitize", "none"],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
