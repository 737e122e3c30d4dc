"""Trains jobs with different seeds at the same time, unchanged, and prints how often storage was
read: under one node daemon, and each under its own. Storage is tools/slow, and the limit.

usage: several_jobs.py DIR [--jobs 2,4,8] [--kept 0.35] [--epochs N] prints a table in Markdown

With one daemon there is one block cache, which has room for a part of the dataset; with its own,
each job has such a cache. Beside it stands the least that any cache of that size must read if the
jobs read in turns: Belady's rule, with all reads known. DIR is as for check.py. Needs torch."""

from __future__ import annotations

import argparse
import heapq
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from check import FANSTORE, FILES, LIMIT_S, REGIMES, SLEEPING, Bench, make_files

WORKERS = 1


def least(jobs: int, epochs: int, room: int) -> float:
    """Returns how many times the dataset is read an epoch, by a cache with room for so many files
    that evicts the one whose next read is last. Orders are drawn at random."""
    draw = random.Random(1)
    orders = [draw.sample(range(FILES), FILES) for _ in range(jobs * epochs)]
    reads = [
        orders[epoch * jobs + job][place]
        for epoch in range(epochs)
        for place in range(FILES)
        for job in range(jobs)
    ]
    never = len(reads)
    nexts, soonest = [never] * len(reads), [never] * FILES
    for at in range(len(reads) - 1, -1, -1):
        nexts[at], soonest[reads[at]] = soonest[reads[at]], at
    kept: dict[int, int] = {}
    latest: list[tuple[int, int]] = []
    missed = 0
    for at, file in enumerate(reads):
        missed += file not in kept
        kept[file] = nexts[at]
        heapq.heappush(latest, (-nexts[at], file))
        while len(kept) > room:
            next_use, other = heapq.heappop(latest)
            if kept.get(other) == -next_use:
                del kept[other]
    return missed / FILES / epochs


def train(bench: Bench, jobs: int, kept: float, epochs: int, together: bool) -> tuple[float, float]:
    """Trains the jobs. Returns the seconds of the slowest one, and how many times storage was read
    an epoch."""
    words = [
        [sys.executable, SLEEPING, bench.source, *REGIMES["fetches"], WORKERS, epochs, seed]
        for seed in range(jobs)
    ]
    texts = [shlex.join(map(str, each)) for each in words]
    commands = [" & ".join(texts) + " & wait"] if together else texts
    run = [*FANSTORE, "run", "--stage", "plan", "--quiet", "--local-bytes", "0"]
    run += ["--cache-bytes", str(int(kept * bench.bytes)), "--dataset", str(bench.slow.mount)]
    run += ["--mount", str(bench.source), "--output-dir"]
    with bench.slow:
        before = bench.slow.counts()["read"].bytes
        running = [
            subprocess.Popen(
                [*run, str(bench.work / f"outputs-{number}"), "--", "sh", "-c", command],
                env=bench.env, stdout=subprocess.PIPE, text=True,
            )
            for number, command in enumerate(commands)
        ]  # fmt: skip
        said = [each.communicate(timeout=LIMIT_S)[0] for each in running]
        read_bytes = bench.slow.counts()["read"].bytes - before
    seconds = [float(each) for each in re.findall(r"all epochs: ([0-9.]+) s", "".join(said))]
    assert len(seconds) == jobs, said
    return max(seconds), read_bytes / bench.bytes / epochs


def main() -> None:
    """Measures the numbers of jobs that the command line names."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--jobs", type=_numbers, default=[2, 4, 8])
    parser.add_argument("--kept", type=float, default=0.35)
    parser.add_argument("--epochs", type=int, default=4)
    asked = parser.parse_args()
    work = asked.work.absolute()
    work.mkdir(exist_ok=True)
    bench = Bench(work, make_files(work))
    print("| jobs | one daemon | its own each | least | one daemon | its own each |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    for jobs in asked.jobs:
        (one_s, one), (own_s, own) = (
            train(bench, jobs, asked.kept, asked.epochs, together) for together in (True, False)
        )
        bound = least(jobs, asked.epochs, int(asked.kept * FILES))
        print(f"| {jobs} | {one:.2f} | {own:.2f} | {bound:.2f} | {one_s:.0f} s | {own_s:.0f} s |",
              flush=True)  # fmt: skip


def _numbers(text: str) -> Sequence[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    main()
