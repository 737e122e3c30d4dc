"""Trains jobs with different seeds at the same time, unchanged, and prints how often storage was
read: under one node daemon, each by its own `fanstore run`, and so without sharing. Storage is
tools/slow, and the limit.

usage: several_jobs.py DIR [--jobs 2,4,8] [--kept 0.35] [--local 0] [--epochs N] [--late S] prints a
table in Markdown. --kept, --local: the parts of the dataset for which there is room in the block
cache of a `fanstore run` and on the local disk. --late: each job begins so many seconds after the
one before. Beside it stands the least that any one cache of that size must read if the jobs read in
turns: Belady's rule, with all reads known.

usage: several_jobs.py DIR --fates [...] kills the first job, whose cache the others use, stops the
second for a while, starts one more, and prints the longest times between two batches of the others.

DIR is as for check.py. Needs torch."""

from __future__ import annotations

import argparse
import heapq
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
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


class Search:
    """Jobs on a dataset. The parts of it that the block cache and the local disk may hold; late_s:
    how long after the one before each job begins."""

    def __init__(self, bench: Bench, kept: float, local: float, epochs: int, late_s: float) -> None:
        self._bench, self._epochs, self._late_s = bench, epochs, late_s
        self._run = [*FANSTORE, "run", "--stage", "plan", "--quiet"]
        self._run += ["--local-bytes", str(int(local * bench.bytes))]
        self._run += ["--cache-bytes", str(int(kept * bench.bytes))]
        self._run += ["--dataset", str(bench.slow.mount), "--mount", str(bench.source)]

    def _command(self, seed: int) -> str:
        words = [sys.executable, SLEEPING, self._bench.source, *REGIMES["fetches"], WORKERS]
        return shlex.join(map(str, [*words, self._epochs, seed]))

    def _start(self, number: int, command: str, **env: str) -> subprocess.Popen[str]:
        where = ["--output-dir", str(self._bench.work / f"outputs-{number}")]
        return subprocess.Popen(
            [*self._run, *where, "--", "sh", "-c", command], env={**self._bench.env, **env},
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def train(self, jobs: int, together: bool = False, **env: str) -> tuple[float, float]:
        """Trains the jobs. Returns the seconds of the slowest one, and how many times storage was
        read an epoch."""
        commands = [f"sleep {self._late_s * seed}; {self._command(seed)}" for seed in range(jobs)]
        if together:
            commands = [" & ".join(f"({each})" for each in commands) + " & wait"]
        with self._bench.slow:
            before = self._bench.slow.counts()["read"].bytes
            running = [self._start(*each, **env) for each in enumerate(commands)]
            said = [each.communicate(timeout=LIMIT_S)[0] for each in running]
            read_bytes = self._bench.slow.counts()["read"].bytes - before
        seconds = [float(each) for each in re.findall(r"all epochs: ([0-9.]+) s", "".join(said))]
        assert len(seconds) == jobs, said
        return max(seconds), read_bytes / self._bench.bytes / self._epochs

    def fates(self, jobs: int) -> list[float]:
        """Trains jobs of which the first is killed, the second is stopped for 5 s, and one more
        begins. Returns the longest seconds between two batches of each of the others."""
        with self._bench.slow:
            running = [self._start(seed, self._command(seed)) for seed in range(jobs)]
            time.sleep(10)
            for pid in _family(running[0].pid):
                os.kill(pid, signal.SIGKILL)
            time.sleep(3)
            stopped = _family(running[1].pid)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            running.append(self._start(jobs, self._command(jobs)))
            time.sleep(5)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            said = [each.communicate(timeout=LIMIT_S)[0] for each in running]
        return [float(re.findall(r"longest between batches: ([0-9.]+)", each)[0])
                for each in said[2:]]  # fmt: skip


def _family(pid: int) -> list[int]:
    """Returns a process and all below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in _family(int(child)))]


def main() -> None:
    """Measures the numbers of jobs that the command line names."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--jobs", type=_numbers, default=[2, 4, 8])
    parser.add_argument("--kept", type=float, default=0.35)
    parser.add_argument("--local", type=float, default=0.0)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--late", type=float, default=0.0)
    parser.add_argument("--fates", action="store_true")
    asked = parser.parse_args()
    work = asked.work.absolute()
    work.mkdir(exist_ok=True)
    bench = Bench(work, make_files(work))
    search = Search(bench, asked.kept, asked.local, asked.epochs, asked.late)
    if asked.fates:
        print("longest between batches:", search.fates(max(asked.jobs)))
        return
    ways = ("one run", "a run each", "without sharing")
    print(f"| jobs | {' | '.join(ways)} | least | {' | '.join(ways)} |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for jobs in asked.jobs:
        found = [search.train(jobs, together=True), search.train(jobs),
                 search.train(jobs, FANSTORE_NEIGHBOURS="off")]  # fmt: skip
        bound = least(jobs, asked.epochs, int(asked.kept * FILES))
        read = " | ".join(f"{each:.2f}" for _, each in found)
        took = " | ".join(f"{each:.0f} s" for each, _ in found)
        print(f"| {jobs} | {read} | {bound:.2f} | {took} |", flush=True)


def _numbers(text: str) -> Sequence[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    main()
