"""A rank of a training job that sleeps instead of computing. Reads the batches of its epochs with
loaders that work ahead, as a DataLoader's workers do, and waits after each batch for all other
ranks.

usage: trainer.py JOB ORDER OUT

JOB: a JSON file with the fields of `Job`. ORDER: a file as for `fanstore run --order`. OUT: gets
the seconds of each epoch, one on each line. Files are read below $FANSTORE_MOUNT_PREFIX."""

from __future__ import annotations

import json
import mmap
import os
import queue
import struct
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

_PATIENCE_S = 300.0
_STEP = struct.Struct("=q")

Batch = tuple[str, ...]  # names of files


@dataclass(frozen=True)
class Job:
    """ranks: the number of ranks. compute_bytes_per_s: the rate at which each consumes. batch: the
    files of a rank's batch. loaders: threads, each of which has a batch ready and reads the next
    one; 0: a batch is read when it is needed. reads: whether files are read, or their bytes only
    counted. steps: a file that all ranks map."""

    ranks: int
    compute_bytes_per_s: float
    batch: int
    loaders: int
    reads: bool
    steps: str


class Barrier:
    """Makes a rank wait until all ranks have done a step: numbers in a file that all of them
    map."""

    def __init__(self, path: str, ranks: int, rank: int) -> None:
        self._rank, self._ranks = rank, ranks
        with open(path, "r+b") as file:
            self._steps = mmap.mmap(file.fileno(), ranks * _STEP.size)

    def wait(self, step: int) -> None:
        """Records that this rank has done `step` steps. Returns when all ranks have."""
        _STEP.pack_into(self._steps, self._rank * _STEP.size, step)
        end = time.monotonic() + _PATIENCE_S
        while min(done for (done,) in _STEP.iter_unpack(self._steps[:])) < step:
            if time.monotonic() > end:
                raise SystemExit(f"a rank has not come to step {step} in {_PATIENCE_S:.0f} s")
            time.sleep(0.0005)


class Loaders:
    """Threads that take turns in reading batches ahead."""

    def __init__(self, root: Path, batches: list[Batch], count: int) -> None:
        self._root, self._batches = root, batches
        self._ready: list[queue.Queue[int]] = [queue.Queue(1) for _ in range(count)]
        for number in range(count):
            threading.Thread(target=self._load, args=(number,), daemon=True).start()

    def _load(self, number: int) -> None:
        for batch in self._batches[number :: len(self._ready)]:
            self._ready[number].put(self.read(batch))

    def read(self, batch: Batch) -> int:
        """Reads the files of a batch. Returns the number of bytes."""
        return sum(_size_of_content(self._root / name) for name in batch)

    def sizes(self) -> Iterator[int]:
        """Yields the number of bytes of each batch as soon as it is read."""
        for number, batch in enumerate(self._batches):
            if self._ready:
                yield self._ready[number % len(self._ready)].get(timeout=_PATIENCE_S)
            else:
                yield self.read(batch)


def _size_of_content(path: Path) -> int:
    with open(path, "rb", buffering=0) as file:
        return len(file.readall())


def epochs_of(order: Path, batch: int) -> list[list[Batch]]:
    """Returns the batches of each epoch."""
    epochs = [part.split("\n") for part in order.read_text().strip().split("\n\n")]
    return [[tuple(e[at : at + batch]) for at in range(0, len(e), batch)] for e in epochs]


def sizes_of(sizes: dict[str, int], batches: list[Batch]) -> Iterator[int]:
    """Yields the number of bytes of each batch, without reading."""
    for batch in batches:
        yield sum(sizes[name] for name in batch)


def main() -> None:
    """Runs the epochs, and writes the time of each."""
    job_file, order_file, out = map(Path, sys.argv[1:4])
    said = json.loads(job_file.read_text())
    sizes = said.pop("sizes")
    job = Job(**said)
    rank = int(os.environ.get("FANSTORE_RANK") or os.environ["PMI_RANK"])
    order = epochs_of(Path(str(order_file).format(rank=rank)), job.batch)
    batches = [batch for epoch in order for batch in epoch]
    barrier = Barrier(job.steps, job.ranks, rank)
    ends = set(accumulate(len(epoch) for epoch in order))
    barrier.wait(1)
    times = [time.monotonic()]
    root = Path(os.environ["FANSTORE_MOUNT_PREFIX"])
    ready = Loaders(root, batches, job.loaders).sizes() if job.reads else sizes_of(sizes, batches)
    for step, size in enumerate(ready, 1):
        time.sleep(size / job.compute_bytes_per_s)
        barrier.wait(step + 1)
        if step in ends:
            times.append(time.monotonic())
    took = [after - before for before, after in pairwise(times)]
    Path(f"{out}-{rank}").write_text("".join(f"{each}\n" for each in took))


if __name__ == "__main__":
    main()
