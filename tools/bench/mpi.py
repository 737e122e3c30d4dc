"""Starts programs on several ranks of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

LIMIT_S = 300


def find_mpiexec() -> str | None:
    """Returns the launcher beside this Python, or else the one on PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    return shutil.which("mpiexec", path=path)


def run_ranks(ranks: int, command: Sequence[str | Path], extra: Mapping[str, str]) -> str:
    """Runs a command on `ranks` ranks, which ask each other as if each had a node of its own, with
    the `extra` variables. Returns their output."""
    mpiexec = find_mpiexec()
    assert mpiexec is not None
    done = subprocess.run(
        [mpiexec, "-n", str(ranks), *map(str, command)],
        check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S,
        env={**os.environ, "FANSTORE_NEIGHBOURS": "off", **extra},
    )  # fmt: skip
    return done.stdout
