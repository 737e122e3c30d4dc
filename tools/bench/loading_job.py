"""A job of loading.py: prints, for each epoch after the first, nanoseconds per sample of
fanstore.torch's loader and of torch's own, in turn, over the files below a directory.

usage: loading_job.py DIRECTORY records|images|crops EPOCHS"""

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
BATCH = 256 if WHAT == "records" else 32


def pixels(content: bytes) -> torch.Tensor:
    return torch.from_numpy(np.array(Image.open(io.BytesIO(content)).convert("RGB")))


def crop(content: bytes) -> torch.Tensor:
    """Returns an image after the usual transform of training: half of it, small, as floats."""
    image = Image.open(io.BytesIO(content)).convert("RGB")
    box = (image.width // 4, image.height // 4, image.width * 3 // 4, image.height * 3 // 4)
    small = np.array(image.resize((224, 224), Image.Resampling.BILINEAR, box))
    return torch.from_numpy(small).permute(2, 0, 1).float().div(255).contiguous()


def record(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


SAMPLE = {"records": record, "images": pixels, "crops": crop}[WHAT]


class Files(torch.utils.data.Dataset):
    """The usual dataset of users: a list of paths, each opened by itself."""

    def __init__(self) -> None:
        self.paths = sorted(str(path) for path in Path(TOP).rglob("*") if path.is_file())

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> torch.Tensor:
        with open(self.paths[index], "rb") as stream:
            return SAMPLE(stream.read())


def main() -> None:
    options: dict[str, Any] = {
        "batch_size": BATCH, "shuffle": True, "num_workers": 2, "persistent_workers": True,
    }  # fmt: skip
    loaders = (
        DataLoader(FileDataset(TOP, loader=None if WHAT == "records" else SAMPLE), **options),
        torch.utils.data.DataLoader(Files(), **options),
    )
    for epoch in range(EPOCHS + 1):
        for loader in loaders:
            begun = time.perf_counter_ns()
            samples = sum(len(batch) for batch in loader)
            if epoch:
                print((time.perf_counter_ns() - begun) / samples)


main()
