"""Measures how far the predictions of `fanstore study whatif` are from what jobs then reach, with
parts of the dataset in the block cache, on the node's disk, and on both. Storage is tools/slow.

usage: check.py DIR [sleeping] [photos] [--runs N] [--stores NAME,...] prints a table in Markdown

sleeping: jobs whose rates are known by construction; photos: training that shares its cores with
decoding. DIR is created, or has the datasets and analyses of an earlier call, which are then used.
Run it on an idle machine. It needs torch, and Pillow for photos."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "slow"))
from slow import SlowTree  # noqa: E402

FANSTORE = [sys.executable, "-m", "fanstore"]
FILES, FILE_BYTES = 600, 100_000
KEPT = (0.35, 0.65, 1.0)
SLEEPING, PHOTOS = HERE / "sleeping_job.py", HERE / "photo_job.py"
WORKERS, EPOCHS, STEPS = 2, 4, 200
SETTLED = 2  # epochs until the block cache holds what the order says
LIMIT_S = 900
WITHIN = 0.05
STORAGE_BYTES_PER_S = 6_000_000
# By the stage that limits a job with much in the cache: the seconds per sample in which it trains
# and in which a worker prepares.
REGIMES = {"training": (0.008, 0.004), "preparation": (0.002, 0.016), "fetches": (0.002, 0.006)}
# By name, the parts of what is kept that are in the block cache and on the disk.
STORES = {"block cache": (1.0, 0.0), "disk": (0.0, 1.0), "both": (0.5, 0.5)}
# Options of a job that keeps files on its disk alone.
NO_CACHE = ("--cache-policy", "close", "--cache-bytes", str(10 << 20))


class Bench:
    """A dataset on slow storage, and a job that reads it."""

    def __init__(self, work: Path, source: Path) -> None:
        self.work, self.source, self.dataset = work, source, work / f"{source.name}.fan"
        if not self.dataset.exists():
            subprocess.run([*FANSTORE, "prepare", "--quiet", source, self.dataset], check=True)
        self.bytes = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
        self.env = {**os.environ, "FANSTORE_KEEP_LEARNT": "off"}
        self.slow = SlowTree(
            self.dataset, work / "slow", total_bytes_per_s=STORAGE_BYTES_PER_S, direct=True
        )

    def analysed(self, name: str, job: Sequence[str]) -> Path:
        """Analyses a job. Returns the path of the report as JSON."""
        out = self.work / f"analysis of {name}"
        if not out.exists():
            self._call("study", "analyze", "--steps", str(STEPS), "--out", str(out), job=job)
        return out / "analysis.json"

    def measured(self, job: Sequence[str], cached: float, local: float) -> float:
        """Runs a job while the node has parts of the dataset in its block cache and on its disk.
        Returns the samples per second of a later epoch, as a median."""
        cache = ("--cache-bytes", str(int(cached * self.bytes))) if cached else NO_CACHE
        room = ("--local-bytes", str(int(local * self.bytes)), *cache)
        said = self._call("run", "--stage", "plan", *room, job=job)
        rates = [float(each) for each in re.findall(r": ([0-9.]+) samples/s", said)]
        return statistics.median(rates[SETTLED:])

    def _call(self, command: str, *options: str, job: Sequence[str]) -> str:
        where = ["--dataset", self.slow.mount, "--mount", self.source, "--quiet"]
        if command == "run":
            where += ["--output-dir", self.work / "outputs"]
        words = [*FANSTORE, command, *options, *map(str, where), "--", sys.executable, *job]
        with self.slow:
            done = subprocess.run(words, env=self.env, check=True, stdout=subprocess.PIPE,
                                  text=True, timeout=LIMIT_S)  # fmt: skip
        return done.stdout


def whatif(report: Path, cached: float, local: float) -> dict[str, Any]:
    """Returns what `fanstore study whatif` predicts for parts of the dataset kept."""
    kept = ("--cache", f"{100 * cached:g}%", "--local", f"{100 * local:g}%")
    words = [*FANSTORE, "study", "whatif", str(report), *kept, "--json"]
    found: list[dict[str, Any]] = json.loads(subprocess.check_output(words))
    return found[0]


def compare(bench: Bench, jobs: dict[str, Sequence[str]], runs: int, stores: Sequence[str]) -> None:
    """Analyses jobs, by name, and prints a row for each part of the dataset in each store."""
    reports = {name: bench.analysed(name, job) for name, job in jobs.items()}
    for name, report in reports.items():
        print(f"{name}: {json.loads(report.read_text())['verdict'][0]}", file=sys.stderr)
    for store, (name, job), part in product(stores, jobs.items(), KEPT):
        shares = [share * part for share in STORES[store]]
        told = whatif(reports[name], *shares)["samples_per_s"]
        ran = sorted(bench.measured(job, *shares) for _ in range(runs))
        error = told / statistics.median(ran) - 1
        good = abs(error) <= WITHIN or ran[0] <= told <= ran[-1]
        cells = [name, store, f"{part:.0%}", f"{told:.1f}", f"{statistics.median(ran):.1f}",
                 f"{ran[0]:.1f} to {ran[-1]:.1f}", f"{error:+.1%}",
                 "yes" if good else "no"]  # fmt: skip
        print(f"| {' | '.join(cells)} |", flush=True)


def sleeping(work: Path, runs: int, stores: Sequence[str]) -> None:
    """Compares jobs whose rates are known by construction."""
    source = make_files(work)
    jobs = {
        name: [str(each) for each in (SLEEPING, source, *seconds, WORKERS, EPOCHS)]
        for name, seconds in REGIMES.items()
    }
    compare(Bench(work, source), jobs, runs, stores)


def make_files(work: Path) -> Path:
    """Writes files with random bytes, and returns their folder; an earlier call's are used."""
    source = work / "random"
    source.mkdir(exist_ok=True)
    for number in range(FILES if not any(source.iterdir()) else 0):
        (source / f"{number:04}").write_bytes(os.urandom(FILE_BYTES))
    return source


def photos(work: Path, runs: int, stores: Sequence[str]) -> None:
    """Compares jobs that decode and train on the same cores."""
    source = work / "photos"
    make_photos(source)
    jobs = {
        f"photos, workers: {count}": [str(each) for each in (PHOTOS, source, count, EPOCHS)]
        for count in (1, 2)
    }
    compare(Bench(work, source), jobs, runs, stores)


def make_photos(folder: Path) -> None:
    """Writes JPEG files with smooth shapes and some noise, as photographs have."""
    from PIL import Image

    folder.mkdir(exist_ok=True)
    draw = np.random.default_rng(1)
    for number in range(FILES if not any(folder.iterdir()) else 0):
        shapes = Image.fromarray(draw.integers(0, 256, (27, 40, 3), np.uint8))
        smooth = np.asarray(shapes.resize((640, 427), Image.Resampling.BICUBIC), float)
        noisy = (smooth + draw.normal(0, 8, smooth.shape)).clip(0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / f"{number:04}.jpg", quality=90)


def main() -> None:
    """Runs the named parts, or all."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("jobs", nargs="*", choices=["sleeping", "photos"], default=[])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stores", type=lambda text: text.split(","), default=list(STORES))
    asked = parser.parse_args()
    work = asked.work.absolute()
    work.mkdir(exist_ok=True)
    print("| job | kept in | part | predicted | measured | runs | error | within |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for job in asked.jobs or ["sleeping", "photos"]:
        {"sleeping": sleeping, "photos": photos}[job](work, asked.runs, asked.stores)


if __name__ == "__main__":
    main()
