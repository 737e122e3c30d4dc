"""A trainer whose rates are known by construction: it sleeps for each batch, and for each file that
it prepares. usage: sleeping_job.py ROOT TRAIN_S PREPARE_S WORKERS EPOCHS, seconds a sample."""

from __future__ import annotations

import os
import sys
import time

import torch
from torch.utils import data

ROOT, TRAIN_S, PREPARE_S = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
WORKERS, EPOCHS = int(sys.argv[4]), int(sys.argv[5])


class Folder(data.Dataset):
    """Files below a root, in the order of their names."""

    def __init__(self, root):
        found = (os.path.join(d, name) for d, _, names in os.walk(root) for name in names)
        self.paths = sorted(found)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as stream:
            content = stream.read()
        time.sleep(PREPARE_S)
        return torch.tensor([len(content)], dtype=torch.float32)


def main():
    torch.manual_seed(7)
    dataset = Folder(ROOT)
    checked = data.DataLoader(data.Subset(dataset, range(8)), batch_size=8)
    trained = data.DataLoader(dataset, batch_size=8, shuffle=True, num_workers=WORKERS)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
    for epoch in range(EPOCHS):
        for _ in checked:
            pass
        begin_s, samples, total = 0.0, 0, 0.0
        for batch in trained:
            begin_s = begin_s or time.monotonic()  # the start of workers is no step
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            time.sleep(TRAIN_S * len(batch))
            samples, total = samples + len(batch), total + loss.item()
        seconds = time.monotonic() - begin_s
        with open(os.path.join(ROOT, f"checkpoint-{epoch}.pt"), "wb") as stream:
            torch.save(model.state_dict(), stream)
        print(f"epoch {epoch}: {samples / seconds:.1f} samples/s, loss {total!r}", flush=True)


if __name__ == "__main__":
    main()
