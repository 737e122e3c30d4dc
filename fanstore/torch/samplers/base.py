"""What the samplers have in common with torch's DistributedSampler."""

from __future__ import annotations

from collections.abc import Sized
from typing import TYPE_CHECKING

from torch.utils.data.distributed import DistributedSampler

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.torch.samplers.group import agreed_seed, replicas_and_rank

if TYPE_CHECKING:
    from numpy.typing import NDArray


class EpochSampler(DistributedSampler):
    """What both have of DistributedSampler: set_epoch, the length, and how ends are padded."""

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
        """Sets the epoch (from 0) of the next iteration, the same on all ranks; without it each
        iteration is that of epoch 0, as with DistributedSampler. Raises ValueError."""
        super().set_epoch(checks.integer("epoch", epoch, 0, 2**32 - 1))

    def whole(self, order: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Returns an order with its head again at the end, or without its end (drop_last), so that
        all ranks read as many samples."""
        return np.resize(order, self.total_size)
