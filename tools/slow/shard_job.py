"""The job of epoch_job.py, written for webdataset: reads tar shards, in epochs, as one of several
ranks (the rank is $RANK). Prints for each epoch the seconds to its first batch and to its end."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import torch
import webdataset
from torch.utils.data import default_collate


def to_tensor(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    job = parser.parse_args()
    shards = sorted(map(str, job.directory.iterdir()))[int(os.environ["RANK"]) :: job.ranks]
    times = []
    for epoch in range(job.epochs):
        samples = webdataset.WebDataset(
            shards, shardshuffle=len(shards), seed=epoch, nodesplitter=None, empty_check=False
        )
        samples = samples.shuffle(1000).to_tuple("bin").map_tuple(to_tensor)
        batches = samples.batched(32, collation_fn=default_collate)
        start, first = time.monotonic(), 0.0
        for _ in webdataset.WebLoader(batches, batch_size=None, num_workers=2):
            first = first or time.monotonic() - start
        times.append((first, time.monotonic() - start))
    print(json.dumps({"rank": os.environ["RANK"], "epochs": times}), flush=True)


if __name__ == "__main__":
    main()
