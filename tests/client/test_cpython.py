"""CPython's own tests of files, among the outputs of a mount. Those of archives and shutil, which
take longer, are for tools/cpython_tests.py alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "cpython_tests.py"
LIMIT_S = 400
MODULES = "test_os test_posix test_io test_fileio test_pathlib test_tempfile test_mmap test_glob"


def test_as_the_document_lists() -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--quick", *MODULES.split()],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
