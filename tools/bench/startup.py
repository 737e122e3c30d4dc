"""The row of starting a job on a dataset of 1,300,000 files that is staged already."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from peers import FANSTORE
from preparing import run_timed
from results import OURS, Goal, Result
from warm import Settings, say

FILES = 1_300_000
KEYS = ["start-1300000"]
BUDGET, BUDGET_NS = "budget", 1e9
REPETITIONS = 5
MAKE_INDEX = Path(__file__).resolve().parent.parent / "make_index.py"


def start_times(work: Path, name: str, repetitions: int, *options: str) -> list[float]:
    """Starts jobs on a dataset of FILES files in turn, each of which leaves its staged files to the
    next. Returns how long each took, in nanoseconds."""
    dataset, local = work / f"dataset-{name}", work / f"local-{name}"
    subprocess.run(
        [sys.executable, MAKE_INDEX, dataset, "--files", str(FILES)],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    local.mkdir()
    command: list[str | Path] = [
        *FANSTORE, "run", "--quiet", "--keep-staged", *options, "--dataset", dataset,
        "--local-dir", local, "--mount", work / f"mount-{name}", "--output-dir", work / "output",
        "--", "true",
    ]  # fmt: skip
    return [run_timed(command)[0] for _ in range(repetitions)]


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the whole process `fanstore run -- true` with files that an earlier job has
    staged."""
    say("start on 1,300,000 files")
    runs = start_times(work, "start", min(settings.repetitions, REPETITIONS) + 1)
    yield Result.of(
        "start", KEYS[0], "fanstore run -- true, 1,300,000 files", "job",
        {OURS: runs[1:], BUDGET: [BUDGET_NS]}, [Goal(BUDGET, 1.0)],
        f"with staging {runs[0] / 1e9:.2f} s",
    )  # fmt: skip
