"""CPython's own tests of files, among the outputs of a mount: the quick ones in `make test`, the
others in `make soak`. Those of archives and shutil are for tools/cpython_tests.py alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from soak import sampled

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "cpython_tests.py"
LIMIT_S = 800
QUICK = "test_fileio test_tempfile"
OTHERS = "test_glob test_os test_posix test_io test_pathlib test_mmap"


@pytest.mark.parametrize("modules", sampled([QUICK, OTHERS], [QUICK]))
def test_as_the_document_lists(modules: str) -> None:
    done = subprocess.run(
        [sys.executable, str(TOOL), "--quick", *modules.split()],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
