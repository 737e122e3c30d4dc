"""The base class of the samplers; the rank of a process, and a seed on which all ranks agree."""

from __future__ import annotations

import os
from collections.abc import Sized
from typing import TYPE_CHECKING

import torch
from torch import distributed
from torch.utils.data.distributed import DistributedSampler

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray


def is_distributed() -> bool:
    """Returns whether this process belongs to a process group of torch.distributed."""
    return bool(distributed.is_available() and distributed.is_initialized())


def replicas_and_rank(num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """Returns both arguments if they are given. If both are None, returns those of the process
    group, or (1, 0) for a process without others. Raises ValueError if only one is given,
    RuntimeError if the environment (WORLD_SIZE) names several processes and there is no process
    group yet."""
    if (num_replicas is None) != (rank is None):
        raise ValueError("num_replicas and rank go together; one of them is missing")
    if num_replicas is not None and rank is not None:
        return num_replicas, rank
    if is_distributed():
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
    if not is_distributed():
        raise RuntimeError("seed is None and there is no process group to agree on one; give seed")
    drawn = [agreed_seed(1) if distributed.get_rank() == 0 else None]
    distributed.broadcast_object_list(drawn)
    seed = drawn[0]
    assert seed is not None
    return seed


class EpochSampler(DistributedSampler):
    """The part of DistributedSampler that both samplers use: set_epoch, the length, and the padding
    at the end."""

    def __init__(
        self, dataset: Sized, num_replicas: int | None, rank: int | None, seed: int | None,
        drop_last: bool,
    ) -> None:  # fmt: skip
        if len(dataset) < 2:
            raise ValueError(f"dataset has {len(dataset)} samples; allowed are 2 or more")
        ranks, own = replicas_and_rank(num_replicas, rank)
        checks.integer("num_replicas", ranks, 1)
        checks.integer("rank", own, 0, ranks - 1)
        seed = agreed_seed(ranks) if seed is None else checks.seed_of_epochs(seed, 0)
        super().__init__(
            dataset, ranks, own, seed=seed, drop_last=checks.flag("drop_last", drop_last)
        )
        if not self.num_samples:
            raise ValueError(f"{ranks} ranks have no sample each of {len(dataset)} with drop_last")

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch (from 0) of the next iteration, the same on all ranks. If it is never
        called, each iteration is that of epoch 0, as with DistributedSampler. Raises ValueError."""
        super().set_epoch(checks.integer("epoch", epoch, 0, 2**32 - 1))

    def whole(self, order: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Returns an order that all ranks can divide evenly: its head is repeated at the end, or
        with drop_last its end is left out."""
        return np.resize(order, self.total_size)
