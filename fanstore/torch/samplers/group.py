"""Which rank of which job this process is, and what all ranks have to agree on."""

from __future__ import annotations

import os

import torch
from torch import distributed


def replicas_and_rank(num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """Returns both as given, or where both are None those of the process group; (1, 0) in a process
    that is alone. Raises ValueError for one without the other, and RuntimeError where the
    environment (WORLD_SIZE) speaks of several processes and there is no process group yet."""
    if (num_replicas is None) != (rank is None):
        raise ValueError("num_replicas and rank go together; one of them is missing")
    if num_replicas is not None and rank is not None:
        return num_replicas, rank
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size(), distributed.get_rank()
    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise RuntimeError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']} and there is no process group: call "
            "torch.distributed.init_process_group first, or give num_replicas and rank"
        )
    return 1, 0


def agreed_seed(num_replicas: int) -> int:
    """Returns a seed that rank 0 draws from torch's generator and broadcasts to all ranks. Raises
    RuntimeError for several ranks without a process group."""
    if num_replicas == 1:
        return int(torch.empty((), dtype=torch.int64).random_(2**31))
    if not (distributed.is_available() and distributed.is_initialized()):
        raise RuntimeError("seed is None and there is no process group to agree on one; give seed")
    drawn = [agreed_seed(1) if distributed.get_rank() == 0 else None]
    distributed.broadcast_object_list(drawn)
    seed = drawn[0]
    assert seed is not None
    return seed
