"""An unmodified torch job: reads all files below a directory, in epochs, as one of several ranks
(the rank is $RANK). Sleeps after each batch as long as its computing would take.

Prints when it began, and for each epoch the seconds to its first batch and to its end."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

BATCH, WORKERS = 32, 2


class Files(Dataset):  # type: ignore[type-arg]
    """The files below a directory; a sample is the content of one."""

    def __init__(self, top: str) -> None:
        folders = sorted(os.walk(top))
        self.paths = [Path(folder, name) for folder, _, names in folders for name in sorted(names)]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.frombuffer(bytearray(self.paths[index].read_bytes()), dtype=torch.uint8)


def epochs_of(files: Dataset[Any], job: argparse.Namespace) -> Iterator[DataLoader[Any]]:
    """Yields a loader for each epoch."""
    sampler = DistributedSampler(files, job.ranks, int(os.environ["RANK"]), seed=1)
    loader = DataLoader(files, batch_size=BATCH, sampler=sampler, num_workers=WORKERS)
    for epoch in range(job.epochs):
        sampler.set_epoch(epoch)
        yield loader


def measured(loaders: Iterable[DataLoader[Any]], job: argparse.Namespace) -> None:
    """Reads the epochs, and prints their times."""
    times, begun_s = [], time.monotonic()
    for loader in loaders:
        start, first = time.monotonic(), 0.0
        for batch in loader:
            first = first or time.monotonic() - start
            if job.compute:
                time.sleep(batch.nbytes / job.compute)
        times.append((first, time.monotonic() - start))
    found = {"rank": os.environ["RANK"], "begun_s": begun_s, "epochs": times}
    print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--compute", type=float, help="bytes a second; 0: takes no time")
    job = parser.parse_args()
    measured(epochs_of(Files(job.directory), job), job)


if __name__ == "__main__":
    main()
