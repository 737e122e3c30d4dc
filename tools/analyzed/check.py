"""Compares what `fanstore study analyze` measures and predicts with what is so: on jobs whose
rates are known by construction, and on a real job of torch on photographs. Storage is tools/slow.

usage: check.py DIR [sleeping] [photos] prints tables in Markdown; creates DIR

Run it on an idle machine. It needs torch, Pillow and scikit-learn, whose two photographs are cut
into many."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "slow"))
from slow import SlowTree  # noqa: E402

FANSTORE = [sys.executable, "-m", "fanstore"]
FILES, FILE_BYTES = 1600, 200_000
CACHE_BYTES = 10 << 20  # the smallest block cache: 3 % of the dataset
CACHED = (0.35, 0.65, 1.0)
SLEEPING = HERE / "sleeping_job.py"
WORKERS, EPOCHS, STEPS = 2, 3, 80
LIMIT_S = 900
# By the stage that limits, or the two stages at a border: the seconds per sample in which a job
# trains and a worker prepares, and the bytes per second of the storage.
REGIMES = {
    "training": (0.008, 0.004, 60_000_000),
    "preparation": (0.002, 0.016, 60_000_000),
    "fetches": (0.002, 0.006, 12_000_000),
    "training, preparation": (0.008, 0.016, 60_000_000),
    "preparation, fetches": (0.002, 0.016, 25_000_000),
}


class Bench:
    """A dataset on slow storage, and a job that reads it."""

    def __init__(self, work: Path, source: Path, bytes_per_s: int) -> None:
        self.work, self.source, self.dataset = work, source, work / f"{source.name}.fan"
        if not self.dataset.exists():
            subprocess.run([*FANSTORE, "prepare", "--quiet", source, self.dataset], check=True)
        self.bytes = sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
        self.env = {**os.environ, "FANSTORE_KEEP_LEARNT": "off"}
        self._slow = SlowTree(
            self.dataset, work / "slow", total_bytes_per_s=bytes_per_s, direct=True
        )

    def analysed(self, job: Sequence[str]) -> Path:
        """Analyses a job. Returns the path of the report as JSON."""
        out = self.work / "analysis"
        self._call("study", "analyze", "--steps", str(STEPS), "--out", str(out), job=job)
        return out / "analysis.json"

    def measured(self, job: Sequence[str], part: float) -> float:
        """Runs a job while the node has `part` of the dataset. Returns the samples per second of a
        later epoch, as a median."""
        index = (self.dataset / "index.fsi").stat().st_size
        kept = index + int(part * self.bytes)
        room = ("--stage", "plan", "--local-bytes", str(kept), "--cache-bytes", str(CACHE_BYTES))
        said = self._call("run", *(room if part < 1 else ()), job=job)
        return _median_rate(said)

    def prepared(self, prepare_s: float) -> float:
        """Returns the samples per second of a job that does not train, and reads its files from the
        page cache without FanStore."""
        job = [str(SLEEPING), str(self.source), "0", str(prepare_s), str(WORKERS), str(EPOCHS)]
        said = subprocess.check_output([sys.executable, *job], text=True, timeout=LIMIT_S)
        for checkpoint in self.source.glob("*.pt"):
            checkpoint.unlink()
        return _median_rate(said)

    def _call(self, command: str, *options: str, job: Sequence[str]) -> str:
        where = ["--dataset", self._slow.mount, "--mount", self.source, "--quiet"]
        if command == "run":
            where += ["--output-dir", self.work / "outputs"]
        words = [*FANSTORE, command, *options, *map(str, where), "--", sys.executable, *job]
        with self._slow:
            done = subprocess.run(words, env=self.env, check=True, stdout=subprocess.PIPE,
                                  text=True, timeout=LIMIT_S)  # fmt: skip
        return done.stdout


def _median_rate(said: str) -> float:
    rates = [float(each) for each in re.findall(r": ([0-9.]+) samples/s", said)]
    return statistics.median(rates[1:])


def whatif(report: Path, *parts: float) -> list[dict[str, Any]]:
    """Returns what `fanstore study whatif` predicts for parts of the dataset in the cache."""
    caches = ",".join(f"{100 * part:g}%" for part in parts)
    words = [*FANSTORE, "study", "whatif", report, "--cache", caches, "--json"]
    found: list[dict[str, Any]] = json.loads(subprocess.check_output(list(map(str, words))))
    return found


def sleeping(work: Path) -> None:
    """Prints known and measured rates, limits, and speeds."""
    source = work / "random"
    source.mkdir()
    for number in range(FILES):
        (source / f"{number:04}").write_bytes(os.urandom(FILE_BYTES))
    print("| job | rate | known | measured | measured / known |\n| --- | --- | --- | --- | --- |")
    reports = {}
    for name, (train_s, prepare_s, bytes_per_s) in REGIMES.items():
        bench = Bench(work, source, bytes_per_s)
        job = [str(SLEEPING), str(source), str(train_s), str(prepare_s),
               str(WORKERS), str(EPOCHS)]  # fmt: skip
        report = bench.analysed(job)
        told = json.loads(report.read_text())
        known = {"ingest": 1 / train_s, "prepare": bench.prepared(prepare_s),
                 "storage": bytes_per_s / FILE_BYTES}  # fmt: skip
        for rate, value in known.items():
            found = told["rates"][rate]["samples_per_s"]
            row = f"{name} | {rate} | {value:.1f} | {found:.1f} | {found / value:.3f}"
            print(f"| {row} |", flush=True)
        parts = [float(part) for part in CACHED]
        predicted = [each["samples_per_s"] for each in whatif(report, *parts)]
        ran = [bench.measured(job, part) for part in parts]
        cold = whatif(report, 0)[0]
        wanted = min(known["ingest"], known["prepare"])
        least = cold["min_cache"], max(0.0, 1 - known["storage"] / wanted)
        reports[name] = cold["limits"], least, [*zip(parts, predicted, ran, strict=True)]
    print("\n| job | found limit | least cache | known | cached | predicted | measured | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (limits, least, speeds) in reports.items():
        for part, said, ran_at in speeds:
            row = [", ".join(limits), *(f"{each:.0%}" for each in (*least, part))]
            row += [f"{said:.1f}", f"{ran_at:.1f}", f"{said / ran_at:.3f}"]
            print(f"| {name} | {' | '.join(row)} |")


def photos(work: Path) -> None:
    """Prints predicted and measured speeds of a real job."""
    source = work / "photos"
    make_photos(source)
    print("\n| workers | cached | predicted | measured | predicted / measured |")
    print("| --- | --- | --- | --- | --- |")
    for workers in (1, 2):
        bench = Bench(work, source, 6_000_000)
        job = [str(HERE / "photo_job.py"), str(source), str(workers), str(EPOCHS)]
        report = bench.analysed(job)
        for part, each in zip(CACHED, whatif(report, *CACHED), strict=True):
            said, ran = each["samples_per_s"], bench.measured(job, part)
            print(f"| {workers} | {part:.0%} | {said:.1f} | {ran:.1f} | {said / ran:.3f} |")


def make_photos(folder: Path) -> None:
    """Writes pieces of scikit-learn's two photographs, enlarged, as JPEG files."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    folder.mkdir()
    draw = np.random.default_rng(1)
    large = [Image.fromarray(each).resize((1280, 854)) for each in load_sample_images().images]
    for number in range(FILES):
        left, top = int(draw.integers(0, 640)), int(draw.integers(0, 427))
        piece = large[number % 2].crop((left, top, left + 640, top + 427))
        piece.save(folder / f"{number:04}.jpg", quality=90)


def main() -> int:
    """Runs the named parts, or all."""
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    work = Path(sys.argv[1]).absolute()
    work.mkdir()
    parts = {"sleeping": sleeping, "photos": photos}
    for name in sys.argv[2:] or list(parts):
        parts[name](work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
