"""A dataset of files like those of most projects: ImageFolder's layout and attributes."""

from __future__ import annotations

import os
import sys

import torch
from epochs import epoch_over

ROOT = os.environ["FANSTORE_MOUNT_PREFIX"]
EPOCHS = int(sys.argv[1])
BATCH, WORKERS = 50, 2
RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Files(torch.utils.data.Dataset):
    """Each sample is a pair: the first bytes of a file as numbers from 0 to 1, and the number of
    its class."""

    def __init__(self, keys: tuple[str, str] | None = None) -> None:
        self.classes = sorted(each for each in os.listdir(ROOT) if each.startswith("class-"))
        self.samples = [
            (os.path.join(ROOT, name, file), number)
            for number, name in enumerate(self.classes)
            for file in sorted(os.listdir(os.path.join(ROOT, name)))
        ]
        self.keys = keys

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int):
        path, number = self.samples[index]
        with open(path, "rb") as file:
            pixels = self.decoded(file.read(8))
        if self.keys is None:
            return pixels, number
        return dict(zip(self.keys, (pixels, torch.tensor(number)), strict=True))

    @staticmethod
    def shards() -> list[str]:
        """Returns the paths of tar files that hold some of the files again."""
        return sorted(os.path.join(ROOT, "shards", each) for each in os.listdir(ROOT + "/shards"))

    @staticmethod
    def decoded(content: bytes) -> torch.Tensor:
        return torch.frombuffer(bytearray(content), dtype=torch.uint8) / 255


def model(classes: int = 10) -> torch.nn.Module:
    return torch.nn.Linear(8, classes)


def train(loader, epochs: int = EPOCHS, begin=lambda epoch: None) -> None:
    """Runs a training loop."""
    torch.manual_seed(1)
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(epochs):
        begin(epoch)
        for pixels, numbers in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(pixels), numbers).backward()
            optimizer.step()
        epoch_over()
