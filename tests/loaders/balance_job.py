"""One rank of two with unequal cost of preparation: prints its numbers of workers, epoch by epoch,
and the median time that the loop waited for a batch in the first and the last one.

usage: balance_job.py RANK FILE COST_S EPOCHS
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import torch
from torch import distributed

from fanstore.torch import DataLoader, WorkerBalance

RANK, FILE, COST_S, EPOCHS = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])


class Costly(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        time.sleep(COST_S)
        return torch.tensor(index)


def main() -> None:
    distributed.init_process_group("gloo", init_method=f"file://{FILE}", rank=RANK, world_size=2)
    loader = DataLoader(Costly(), batch_size=4, num_workers=2, persistent_workers=True)
    balance = WorkerBalance(loader, least=1, most=3)
    waits = []
    for _ in range(EPOCHS):
        workers = balance.adapt()
        begun = time.monotonic()
        assert sum(len(batch) for batch in loader) == 96
        waits.append((time.monotonic() - begun) / len(loader))
        print(workers, end=" ")
    print(f"{waits[0]:.4f} {statistics.median(waits[1:] or waits):.4f}")
    distributed.barrier()
    distributed.destroy_process_group()


main()
