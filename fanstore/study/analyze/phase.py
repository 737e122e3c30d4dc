"""Runs a job for one phase, and ends it when its steps are done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fanstore.errors import FanstoreError

_POLL_S = 0.02
_END_S = 30.0  # for a job to end by itself, and again after each signal
_TAIL = 5  # lines of what it said


@dataclass(frozen=True)
class Ran:
    """What a phase left: a record of each process whose loaders were seen, the trace, and whether
    the job had to be ended since the time was over."""

    records: list[dict[str, Any]]
    trace: Path
    cut_off: bool


def run_phase(
    words: Sequence[str], environ: Mapping[str, str], directory: Path, limit_s: float
) -> Ran:
    """Runs a command line; the directory is there, and gets its records, its trace and its log.
    Raises FanstoreError where the job failed before its steps were done."""
    log = directory / "log"
    begin_s = time.monotonic()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            words, env=dict(environ), stdin=subprocess.DEVNULL, stdout=stream,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        cut_off = False
        while process.poll() is None and not _is_done(directory) and not cut_off:
            cut_off = time.monotonic() - begin_s > limit_s
            time.sleep(_POLL_S)
    finally:
        told = process.poll() is None
        _end(process, directory)
    records = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    if process.returncode != 0 and not told and not records:
        raise FanstoreError(f"the job failed (exit code {process.returncode}): {_last(log)}")
    return Ran(records, directory / "trace", cut_off)


def _is_done(directory: Path) -> bool:
    begun = {path.stem for path in directory.glob("*.begun")}
    return bool(begun) and begun <= {path.stem for path in directory.glob("*.json")}


def _end(process: subprocess.Popen[bytes], directory: Path) -> None:
    """Has the job end: by itself where its loaders are watched, else by signals."""
    (directory / "stop").touch()
    watched = any(directory.glob("*.begun"))
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is None and not watched:
            continue
        try:
            if number is not None and process.poll() is None:
                os.kill(process.pid, number)
            process.wait(_END_S)
            return
        except subprocess.TimeoutExpired:
            continue


def _last(log: Path) -> str:
    lines = log.read_text(errors="backslashreplace").strip().splitlines()
    return " / ".join(lines[-_TAIL:]) or "it said nothing"
