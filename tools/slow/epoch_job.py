"""An unmodified torch job: reads all files below a directory, in epochs, as one of several ranks.

usage: epoch_job.py DIRECTORY RANKS EPOCHS (the rank is $RANK)

Prints for each epoch the seconds to its first batch and to its last one."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Files(Dataset):  # type: ignore[type-arg]
    """The files below a directory; a sample is the content of one."""

    def __init__(self, top: str) -> None:
        folders = sorted(os.walk(top))
        self.paths = [Path(folder, name) for folder, _, names in folders for name in sorted(names)]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.frombuffer(bytearray(self.paths[index].read_bytes()), dtype=torch.uint8)


def main() -> None:
    top, ranks, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    files = Files(top)
    sampler = DistributedSampler(files, ranks, int(os.environ["RANK"]), seed=1)
    loader = DataLoader(files, batch_size=32, sampler=sampler, num_workers=2)
    times = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        start, first = time.monotonic(), 0.0
        for _ in loader:
            first = first or time.monotonic() - start
        times.append((first, time.monotonic() - start))
    print(json.dumps({"rank": os.environ["RANK"], "epochs": times}), flush=True)


if __name__ == "__main__":
    main()
