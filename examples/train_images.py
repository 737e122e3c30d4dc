"""Training on images of a packed dataset, with FanStore's ImageFolder and DataLoader
(docs/loaders.md): stopped in the middle of an epoch, and gone on with.

    python examples/train_images.py

makes a small dataset of two classes and trains on it twice: at once, and in two parts, with the
state of the loader kept between them. Both see the same batches. Needs torch and Pillow; takes less
than a minute.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from fanstore.torch import DataLoader, ImageFolder

BATCH, SIDE, EPOCHS = 16, 32, 2


def make_images(top: Path) -> None:
    """Makes reddish and bluish images, a folder each."""
    source = random.Random(1)
    for name, shade in (("red", (200, 60, 60)), ("blue", (60, 60, 200))):
        (top / name).mkdir(parents=True)
        for number in range(80):
            colour = tuple(max(0, min(255, level + source.randrange(-90, 90))) for level in shade)
            Image.new("RGB", (48, 40), colour).save(top / name / f"{number:03}.jpg")


def to_tensor(image: Image.Image) -> torch.Tensor:
    """Returns an image as a float tensor (3, SIDE, SIDE)."""
    return torch.from_numpy(np.array(image.resize((SIDE, SIDE)))).permute(2, 0, 1) / 255.0


class Run:
    """A model, its optimizer and its loader, which are kept and taken up together."""

    def __init__(self, dataset: Path, kept: dict[str, Any] | None = None) -> None:
        torch.manual_seed(0)
        self.images = ImageFolder(dataset, transform=to_tensor)
        self.loader = DataLoader(self.images, BATCH, shuffle=True, num_workers=2)
        self.model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * SIDE * SIDE, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.epoch = 0
        if kept is not None:
            self.epoch = kept["epoch"]
            for name in ("loader", "model", "optimizer"):
                getattr(self, name).load_state_dict(kept[name])
            torch.set_rng_state(kept["random"])

    def kept(self) -> dict[str, Any]:
        """Returns what is needed to go on, for torch.save."""
        states = {name: getattr(self, name).state_dict() for name in ("model", "optimizer")}
        where = {"loader": self.loader.state_dict(), "epoch": self.epoch}
        return {**states, **where, "random": torch.get_rng_state()}

    def train(self, steps: int = sys.maxsize) -> list[float]:
        """Trains to the end, or for so many steps; returns the losses."""
        losses: list[float] = []
        while self.epoch < EPOCHS:
            for images, targets in self.loader:
                loss = torch.nn.functional.cross_entropy(self.model(images), targets)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
                if len(losses) == steps:
                    return losses
            self.epoch += 1
        return losses


def main() -> None:
    with tempfile.TemporaryDirectory() as work:
        make_images(Path(work, "images"))
        dataset, kept = Path(work, "images.fan"), Path(work, "kept.pt")
        prepare = [sys.executable, "-m", "fanstore", "prepare", "--quiet"]
        subprocess.run([*prepare, Path(work, "images"), dataset], check=True)
        at_once = Run(dataset).train()
        first = Run(dataset)
        losses = first.train(steps=4)
        torch.save(first.kept(), kept)
        losses += Run(dataset, torch.load(kept)).train()
        print(f"{len(at_once)} steps, loss {at_once[0]:.3f} at first and {at_once[-1]:.3f} at last")
        print("in two parts the losses are", "the same" if losses == at_once else "others")


if __name__ == "__main__":
    main()
