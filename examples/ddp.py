"""Two ranks of torch's DistributedDataParallel on a packed dataset, of which one prepares its
samples more slowly: WorkerBalance gives it more workers (docs/loaders.md).

    python examples/ddp.py

makes a small dataset and starts itself twice. Needs torch; takes less than a minute.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import distributed
from torch.utils.data.distributed import DistributedSampler

from fanstore.torch import DataLoader, FileDataset, WorkerBalance

RANKS, EPOCHS, BATCH, RECORD = 2, 4, 16, 64
PREPARING_S = (0.002, 0.02)  # a sample of each rank


def train(rank: int, dataset: str, store: str) -> None:
    """Trains as one rank."""
    torch.manual_seed(0)
    distributed.init_process_group("gloo", f"file://{store}", rank=rank, world_size=RANKS)

    def prepared(record: torch.Tensor) -> torch.Tensor:
        time.sleep(PREPARING_S[rank])  # stands for decoding and augmentation
        return record.float() / 255

    records = FileDataset(dataset, transform=prepared)
    sampler = DistributedSampler(records, seed=1)
    loader = DataLoader(records, BATCH, sampler=sampler, num_workers=2, persistent_workers=True)
    balance = WorkerBalance(loader, least=1, most=3)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(RECORD, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        workers = balance.adapt()
        begun = time.monotonic()
        for batch in loader:
            loss = (model(batch) - batch.mean(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        took = time.monotonic() - begun
        said = f"epoch {epoch}: rank {rank}, {workers} workers, {took / len(loader):.3f} s a batch"
        # One write a line, so that lines of two ranks do not mix even if Python does not buffer.
        print(f"{said}, loss {loss.item():.4f}\n", end="", flush=True)
    distributed.barrier()
    distributed.destroy_process_group()


def main() -> None:
    if len(sys.argv) > 1:
        train(int(sys.argv[1]), sys.argv[2], sys.argv[3])
        return
    with tempfile.TemporaryDirectory() as work:
        source, dataset, store = (Path(work, name) for name in ("records", "data.fan", "store"))
        source.mkdir()
        numbers = random.Random(1)
        for number in range(512):
            (source / f"{number:04}").write_bytes(numbers.randbytes(RECORD))
        prepare = [sys.executable, "-m", "fanstore", "prepare", "--quiet"]
        subprocess.run([*prepare, source, dataset], check=True)
        ranks = [
            subprocess.Popen([sys.executable, __file__, str(rank), dataset, store])
            for rank in range(RANKS)
        ]
        if any([rank.wait() for rank in ranks]):
            sys.exit("a rank failed")


if __name__ == "__main__":
    main()
