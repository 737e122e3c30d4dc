"""torchdata's StatefulDataLoader(shuffle=True)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.mt19937 import Mt19937
from fanstore.policy.orders.randperm import drawn_randperm, randperm_words

if TYPE_CHECKING:
    from numpy.typing import NDArray


def stateful_data_loader(
    sample_count: int,
    first_epoch: int = 0,
    *,
    seed: int,
    num_workers: int = 0,
    persistent_workers: bool = False,
    words_before: int = 0,
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of a StatefulDataLoader.

    It has one generator for all epochs, which is seeded when the loader is made, with the second of
    two words of the default generator. An epoch draws one permutation from it. Starting workers
    draws one more, which nobody reads: in each epoch, or with persistent_workers in the first.

    seed: what the job gave torch.manual_seed; words_before: what was drawn from the default
    generator between that and the making of the loader. Raises ValueError for arguments out of
    range, and for persistent_workers without workers. Source: torchdata 0.11 stateful_dataloader.
    """
    checks.sample_count(sample_count)
    default = Mt19937(checks.seed(seed))
    default.skip(checks.integer("words_before", words_before, 0))
    generator = Mt19937(int(default.take(2)[1]))
    num_workers = checks.integer("num_workers", num_workers, 0)
    persistent_workers = checks.flag("persistent_workers", persistent_workers)
    if persistent_workers and not num_workers:
        raise ValueError(
            "persistent_workers is True with num_workers 0; allowed are 1 worker or more"
        )
    unread = randperm_words(sample_count) * (num_workers > 0)
    gap = 0 if persistent_workers else unread
    first_epoch = checks.integer("first_epoch", first_epoch, 0)
    generator.skip(unread + first_epoch * (randperm_words(sample_count) + gap))
    return _drawn(sample_count, generator, gap)


def _drawn(sample_count: int, generator: Mt19937, gap: int) -> Iterator[NDArray[np.uint32]]:
    while True:
        yield drawn_randperm(sample_count, generator)
        generator.skip(gap)
