"""A phase of an analysis: makes its command line, and runs it until its steps are done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fanstore.dataset import INDEX_NAME
from fanstore.errors import FanstoreError

# Options of `fanstore run` about where data is and when it is fetched: a phase with options of its
# own leaves these out of the user's.
_STAGING = (
    "stage", "in_place", "local_bytes", "local_dir", "replicas", "keep_staged", "order",
    "cache_policy", "verify",
)  # fmt: skip
OF_THE_JOB = ("job", "ingest", "prepare", "memory")  # phases that run the job's command
# By phase, the options of `fanstore run` that replace the user's. In the phase `storage` a node
# keeps nothing but the indexes, so that the node daemon reads everything from the packs, as far
# ahead as for a job.
ORDER_NAME = "order-{rank}.txt"
INSTEAD: Mapping[str, tuple[str, ...]] = {
    "prepare": ("--stage", "memory"),
    "memory": ("--stage", "memory"),
    "storage": (
        "--stage", "lazy", "--local-bytes", "INDEXES", "--cache-policy", "close",
        "--cache-bytes", "64M", "--order", "ORDER",
    ),
    "cache": ("--stage", "memory", "--order", "off"),
}  # fmt: skip


@dataclass(frozen=True)
class AnalysisRequest:
    """The request for an analysis. datasets: directories. options: of `fanstore run`, by the
    setting, as given; steps: how many are measured in each phase. limit_s: the longest time of a
    phase. launcher: words that start several ranks, such as those of srun. aside: the job's changes
    to its directories go to memory. ingest: the rate of training (samples/s), if known."""

    datasets: tuple[str, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    command: tuple[str, ...]
    steps: int
    limit_s: float
    launcher: tuple[str, ...] = ()
    aside: bool = True
    ingest: float | None = None

    def words(self, phase: str, directory: str, command: Sequence[str]) -> list[str]:
        """Returns the command line of a phase. directory: for the phase's files."""
        indexes = str(sum((Path(each) / INDEX_NAME).stat().st_size for each in self.datasets))
        order = f"{directory}/{ORDER_NAME}"
        is_known = os.path.exists(order.format(rank=0))
        words = {"INDEXES": indexes, "ORDER": order if is_known else "off"}
        instead = [words.get(word, word) for word in INSTEAD.get(phase, ())]
        left_out = {*(_STAGING if instead else ()), "output_dir", "quiet"}
        kept = [word for name, given in self.options if name not in left_out for word in given]
        own = ["--output-dir", f"{directory}/outputs", "--trace", f"{directory}/trace", "--quiet"]
        run = [sys.executable, "-m", "fanstore", "run"]
        if self.aside and phase in OF_THE_JOB:
            command = [
                sys.executable,
                "-m",
                "fanstore.study.analyze.aside",
                directory,
                "--",
                *command,
            ]
        return [*self.launcher, *run, *kept, *instead, *own, "--", *command]

    def environ(self, phase: str) -> dict[str, str]:
        """Returns the environment of a phase, without settings that the phase replaces."""
        variables = {"FANSTORE_" + name.upper() for name in _STAGING} if phase in INSTEAD else set()
        kept = {name: text for name, text in os.environ.items() if name not in variables}
        kept["FANSTORE_KEEP_LEARNT"] = "off"  # an analysis must leave nothing beside the dataset
        if phase in INSTEAD:
            kept["FANSTORE_IN_PLACE"] = "off"  # overrides the settings file
        return kept


_POLL_S = 0.02
_END_S = 30.0  # time for a job to end by itself, and again after each signal
_TAIL = 5  # lines of the log that an error quotes


@dataclass(frozen=True)
class Ran:
    """The results of a phase: the records of processes whose loaders were watched, the trace, and
    whether the job was ended because its time was up."""

    records: list[dict[str, Any]]
    trace: Path
    cut_off: bool


def run_phase(
    words: Sequence[str], environ: Mapping[str, str], directory: Path, limit_s: float
) -> Ran:
    """Runs a command line. directory: an existing one for records, trace and log. Raises
    FanstoreError if the job fails before its steps are done."""
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
    """Ends the job: by the file `stop` if its loaders are watched, otherwise by signals."""
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
