# does: torchrun with 2 ranks: each reads files, a sharded checkpoint is written and loaded
# needs: torch numpy
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from case import run


def make(directory):
    for n in range(8):
        torch.save(torch.full((100,), n), directory / f"{n}.pt")


def train(directory):
    dist.init_process_group("gloo")
    mine = sorted(directory.glob("*.pt"))[dist.get_rank() :: 2]
    total = sum(torch.load(path).sum() for path in mine)
    dist.all_reduce(total)
    mesh = dist.init_device_mesh("cpu", (2,))
    state = {"w": dist.tensor.distribute_tensor(torch.ones(100), mesh, [dist.tensor.Shard(0)])}
    dcp.save(state, checkpoint_id=directory / "out" / "ckpt")
    state["w"] = dist.tensor.distribute_tensor(torch.zeros(100), mesh, [dist.tensor.Shard(0)])
    dcp.load(state, checkpoint_id=directory / "out" / "ckpt")
    whole = state["w"].full_tensor().sum()
    if dist.get_rank() == 0:
        print(int(total), float(whole), flush=True)
    dist.destroy_process_group()


def use(directory):
    if "RANK" in os.environ:
        return train(directory)
    from torch.distributed.run import main

    return main(["--standalone", "--nproc-per-node=2", *sys.argv])


run(make, use)
