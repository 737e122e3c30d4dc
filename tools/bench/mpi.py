"""Starts programs on several ranks of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from peers import FANSTORE

LIMIT_S = 300


def find_mpiexec() -> str | None:
    """Returns the launcher beside this Python, or else the one on PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    return shutil.which("mpiexec", path=path)


def run_job(
    work: Path, ranks: int, dataset: Path, command: Sequence[object], *options: object,
    **variables: str,
) -> str:  # fmt: skip
    """Runs a command in a job of `ranks` ranks that serves a dataset, with more options of
    `fanstore run` and more variables. Returns the output of all ranks."""
    where = [
        "--quiet", "--dataset", dataset, "--mount", work / "mount-{rank}",
        "--local-dir", work / "node-{rank}", "--output-dir", work / "output",
    ]  # fmt: skip
    return run_ranks(ranks, [*FANSTORE, "run", *where, *options, "--", *command], variables)


def run_ranks(ranks: int, command: Sequence[object], extra: Mapping[str, str]) -> str:
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
