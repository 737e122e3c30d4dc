"""Runs a torch job (tools/slow/epoch_job.py) with FanStore on datasets of the four sizes, and
simulates it. FanStore finds out by itself in which order the job reads. Prints the seconds of
epochs from their first batch on: before, torch starts its workers, which is not simulated.

    .venv/bin/python tools/regimes/torch_jobs.py WORK --python VENV/bin/python [--regimes 1,4]"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from regime import (
    COMPUTE_BYTES_PER_S,
    EPOCHS,
    FANSTORE,
    HERE,
    LIMIT_S,
    MEAN_BYTES,
    MPIEXEC,
    NODES,
    REGIMES,
    SHARED_BYTES_PER_S,
    WAYS,
    Measured,
    Regime,
)
from slow import SlowTree

_JOB = HERE.parent / "slow" / "epoch_job.py"


class TorchRegime(Regime):
    """A regime whose files have one size, so that torch can make batches of them."""

    def drawn_sizes(self, count: int) -> NDArray[np.integer]:
        """Implements Regime.drawn_sizes."""
        return np.full(count, MEAN_BYTES)

    def train(self, python: str) -> Measured:
        """Runs the job. Returns the seconds of each epoch of the slowest rank."""
        place = self.work / "run"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for rank in range(NODES):
            (place / f"node-{rank}").mkdir()
        where = ["--dataset", self.slow / "dataset", "--mount", place / "mount",
                 "--local-dir", place / "node-{rank}", "--quiet"]  # fmt: skip
        options = [
            each for each in WAYS["fanstore"].options or () if each not in ("--order", "ORDER")
        ]
        job = f"RANK=$FANSTORE_RANK exec {python} {_JOB} {place / 'mount'} --ranks {NODES}"
        job += f" --epochs {EPOCHS} --compute {COMPUTE_BYTES_PER_S}"
        command = [*FANSTORE, "run", *where, *options, "--", "sh", "-c", job]
        slow = SlowTree(self.shared, self.slow, total_bytes_per_s=SHARED_BYTES_PER_S, direct=True)
        with slow:
            done = subprocess.run(
                [MPIEXEC, "-n", str(NODES), *map(str, command)], timeout=LIMIT_S,
                capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        ranks = [json.loads(line)["epochs"] for line in done.stdout.splitlines() if line[:1] == "{"]
        if done.returncode != 0 or len(ranks) != NODES:
            return Measured([], done.stderr.strip().split("\n")[0])
        epochs = zip(*ranks, strict=True)
        return Measured([max(end - first for first, end in epoch) for epoch in epochs])


def main() -> None:
    """Measures and simulates the regimes that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path, help="a directory to be made, on a local disk")
    parser.add_argument("--python", required=True, help="of an environment with torch")
    parser.add_argument("--regimes", default=",".join(map(str, REGIMES)))
    asked = parser.parse_args()
    asked.work.mkdir()
    print("| dataset | first epoch | later | simulated | measured / simulated |")
    print("| --- | --- | --- | --- | --- |")
    for number in map(int, asked.regimes.split(",")):
        regime = TorchRegime(asked.work, number)
        simulated = regime.simulate(["fanstore"])["fanstore"]
        measured = regime.train(asked.python)
        if not measured.epochs_s:
            print(f"| {REGIMES[number][0]} | {measured.reason} |")
            continue
        first, *later = measured.epochs_s
        expected, found = statistics.median(simulated.epochs_s[1:]), statistics.median(later)
        cells = (f"{first:.2f}", f"{found:.2f}", f"{expected:.2f}", f"{found / expected:.2f}")
        print(f"| {number}: {REGIMES[number][0]} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
