"""A job of a search in torch: prints its losses, and notes which samples it decodes.

usage: torch_job.py DIRECTORY NAME JOBS RATE [BATCH_SIZE]

With RANK and WORLD_SIZE it is one process of a job of several, which meet at the file MEETING.
"""

from __future__ import annotations

import os
import sys

import torch

from fanstore.torch import CoordinatedDataLoader

DIRECTORY, NAME, JOBS, RATE = sys.argv[1:5]
BATCH_SIZE = int(sys.argv[5]) if len(sys.argv) > 5 else 4


class Files(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """The files of a mount, with a random transform."""

    def __init__(self) -> None:
        self.root = os.environ["FANSTORE_MOUNT_PREFIX"]
        self.names = sorted(name for name in os.listdir(self.root) if name.startswith("f"))

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with open(os.path.join(DIRECTORY, f"decoded-{NAME}"), "a") as stream:
            stream.write(f"{index}\n")
        with open(os.path.join(self.root, self.names[index]), "rb") as file:
            data = torch.tensor(list(file.read(64)), dtype=torch.float32) / 20
        return data + torch.randn(64), index


if "RANK" in os.environ:
    place = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    meeting = f"file://{os.environ['MEETING']}"
    torch.distributed.init_process_group("gloo", init_method=meeting, **place)


def step(loss: torch.Tensor) -> None:
    """Trains all processes of the job alike."""
    optimizer.zero_grad()
    loss.backward()
    for each in model.parameters() if torch.distributed.is_initialized() else ():
        torch.distributed.all_reduce(each.grad)
    optimizer.step()


model = torch.nn.Linear(64, 1)
torch.nn.init.zeros_(model.weight)
torch.nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=float(RATE))
with CoordinatedDataLoader(
    Files(), BATCH_SIZE, jobs=int(JOBS), seed=3, batch_bytes=1 << 16, wait_s=60
) as loader:
    assert len(loader) == -(-20 // BATCH_SIZE // int(os.environ.get("WORLD_SIZE", 1)))
    for _ in range(2):
        for inputs, targets in loader:
            loss = ((model(inputs)[:, 0] - targets / 20) ** 2).mean()
            step(loss)
            print(loss.item().hex())
