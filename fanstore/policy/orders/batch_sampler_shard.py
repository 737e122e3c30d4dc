"""accelerate.data_loader.BatchSamplerShard: which batches of an order a rank reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks

if TYPE_CHECKING:
    from numpy.typing import NDArray


def batch_sampler_shard(
    order: NDArray[Any],
    rank: int,
    world_size: int,
    *,
    batch_size: int,
    drop_last: bool = False,
    even_batches: bool = True,
) -> NDArray[Any]:
    """What a rank reads of an order: batch j is rank j % world_size's. The last round of batches is
    filled from the head of the order, left out with drop_last, or left short without even_batches.
    One rank alone has no BatchSamplerShard: nothing is filled up for it.

    batch_size: of one rank; with split_batches that is the batch of all divided by world_size.
    Returns an array of the same dtype. Raises ValueError for arguments out of range. Source:
    accelerate 1.15 data_loader.py.
    """
    world_size = checks.integer("world_size", world_size, 1)
    rank = checks.integer("rank", rank, 0, world_size - 1)
    round_samples = checks.integer("batch_size", batch_size, 1) * world_size
    whole, rest = divmod(len(order), round_samples)
    tail = order[whole * round_samples :]
    drop_last = checks.flag("drop_last", drop_last)
    if checks.flag("even_batches", even_batches) and rest and not drop_last and world_size > 1:
        tail = np.concatenate((tail, np.resize(order[:round_samples], round_samples - rest)))
    own = slice(rank * batch_size, (rank + 1) * batch_size)
    rounds = order[: whole * round_samples].reshape(whole, round_samples)[:, own]
    return np.concatenate((rounds.ravel(), tail[own][: 0 if drop_last else None]))
