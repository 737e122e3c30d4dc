"""Trains a small convolution on photographs, which PIL decodes. usage: photo_job.py ROOT WORKERS
EPOCHS. After each epoch prints the samples per second, without the first batch of each worker,
because those come all at once."""

from __future__ import annotations

import os
import sys
import time

import numpy as np
import torch
from PIL import Image
from torch.utils import data

ROOT, WORKERS, EPOCHS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
SIDE = 96


class Photos(data.Dataset):
    """The photographs below a root, scaled down."""

    def __init__(self, root):
        found = (os.path.join(d, name) for d, _, names in os.walk(root) for name in names)
        self.paths = sorted(path for path in found if path.endswith(".jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as image:
            small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        return torch.from_numpy(np.array(small)).permute(2, 0, 1).float() / 255, index % 10


def main():
    torch.manual_seed(7)
    torch.set_num_threads(1)
    loader = data.DataLoader(Photos(ROOT), batch_size=8, shuffle=True, num_workers=WORKERS)
    layers = [torch.nn.Conv2d(3, 8, 5, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4)]
    model = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(EPOCHS):
        begin_s, samples, loss = 0.0, 0, torch.zeros(())
        for number, (images, labels) in enumerate(loader, 1):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            samples += len(images) * (number > WORKERS)
            begin_s = time.monotonic() if number == WORKERS else begin_s
        rate = samples / (time.monotonic() - begin_s)
        print(f"epoch {epoch}: {rate:.1f} samples/s, loss {loss.item()!r}", flush=True)


if __name__ == "__main__":
    main()
