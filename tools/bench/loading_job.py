"""A job of the rows of loading.py: prints, for each epoch after the first, nanoseconds per sample
of fanstore.torch's loader and of torch's own, turn by turn, over the files below a directory.

usage: loading_job.py DIRECTORY records|images EPOCHS
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.data
from PIL import Image

from fanstore.torch import DataLoader, FileDataset

TOP, WHAT, EPOCHS = sys.argv[1], sys.argv[2], int(sys.argv[3])
BATCH = {"records": 256, "images": 32}[WHAT]


def pixels(content: bytes) -> torch.Tensor:
    return torch.from_numpy(np.array(Image.open(io.BytesIO(content)).convert("RGB")))


def record(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


class Files(torch.utils.data.Dataset):
    """What people write: the paths in a list, each opened by itself."""

    def __init__(self) -> None:
        self.paths = sorted(str(path) for path in Path(TOP).rglob("*") if path.is_file())

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with open(self.paths[index], "rb") as stream:
            return (record if WHAT == "records" else pixels)(stream.read())


def main() -> None:
    options: dict[str, Any] = {
        "batch_size": BATCH, "shuffle": True, "num_workers": 2, "persistent_workers": True,
    }  # fmt: skip
    loaders = (
        DataLoader(FileDataset(TOP, loader=None if WHAT == "records" else pixels), **options),
        torch.utils.data.DataLoader(Files(), **options),
    )
    for epoch in range(EPOCHS + 1):
        for loader in loaders:
            begun = time.perf_counter_ns()
            samples = sum(len(batch) for batch in loader)
            if epoch:
                print((time.perf_counter_ns() - begun) / samples)


main()
