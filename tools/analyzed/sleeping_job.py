"""A trainer whose rates are known by construction: each batch, and each file, takes a known time;
the trainer sleeps for the rest of it. After each epoch prints the samples per second, without the
first batch of each worker, because those come all at once; at the end, the longest time between two
batches.

usage: sleeping_job.py ROOT TRAIN_S PREPARE_S WORKERS EPOCHS [SEED] (seconds per sample)"""

from __future__ import annotations

import ctypes
import os
import sys
import time

import torch
from torch.utils import data

ROOT, TRAIN_S, PREPARE_S = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
WORKERS, EPOCHS = int(sys.argv[4]), int(sys.argv[5])
SEED = int(sys.argv[6]) if len(sys.argv) > 6 else 7
SUFFIX = ".pt"  # of checkpoints
PR_SET_TIMERSLACK = 29  # prctl(2): otherwise sleeps are 50 us too long


def sleep_until(end_s):
    time.sleep(max(0.0, end_s - time.monotonic()))


class Folder(data.Dataset):
    """The files below a root, in the order of their names."""

    def __init__(self, root):
        found = (os.path.join(d, name) for d, _, names in os.walk(root) for name in names)
        self.paths = sorted(path for path in found if not path.endswith(SUFFIX))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as stream:
            content = stream.read()
        end_s = time.monotonic() + PREPARE_S
        sample = torch.tensor([len(content)], dtype=torch.float32)
        sleep_until(end_s)
        return sample


def main():
    torch.manual_seed(SEED)
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)
    dataset = Folder(ROOT)
    checked = data.DataLoader(data.Subset(dataset, range(8)), batch_size=8)
    trained = data.DataLoader(
        dataset, batch_size=8, shuffle=True, num_workers=WORKERS, persistent_workers=True
    )
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
    first_s = last_s = time.monotonic()
    longest_s = 0.0
    for _ in checked:
        pass
    for epoch in range(EPOCHS):
        begin_s, samples, total = 0.0, 0, 0.0
        for number, batch in enumerate(trained, 1):
            longest_s, last_s = max(longest_s, time.monotonic() - last_s), time.monotonic()
            end_s = time.monotonic() + TRAIN_S * len(batch)
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            total += loss.item()
            sleep_until(end_s)
            samples += len(batch) * (number > WORKERS)
            begin_s = time.monotonic() if number == WORKERS else begin_s
        seconds = time.monotonic() - begin_s
        with open(os.path.join(ROOT, f"{SEED}-{epoch}{SUFFIX}"), "wb") as stream:
            torch.save(model.state_dict(), stream)
        print(f"epoch {epoch}: {samples / seconds:.1f} samples/s, loss {total!r}", flush=True)
    print(f"all epochs: {time.monotonic() - first_s:.1f} s", flush=True)
    print(f"longest between batches: {longest_s:.2f} s", flush=True)


if __name__ == "__main__":
    main()
