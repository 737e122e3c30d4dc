"""Samplers that draw the order of every epoch from one generator, one epoch after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.mt19937 import Mt19937

if TYPE_CHECKING:
    from numpy.typing import NDArray


def drawn_epochs(
    draw: Callable[[Mt19937], NDArray[np.uint32]],
    words: int,
    *,
    first_epoch: int,
    seed: int,
    words_before: int,
    words_between: int | None,
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of first_epoch and the epochs after it.

    draw: draws one epoch's order from a generator; words: how many words that takes. The generator
    is seeded with `seed`. Something else draws words_before words from it before the first epoch
    and words_between (None: as many) between two epochs. Raises ValueError for values out of range.
    """
    generator = Mt19937(checks.seed(seed))
    before = checks.integer("words_before", words_before, 0)
    between = before
    if words_between is not None:
        between = checks.integer("words_between", words_between, 0)
    first_epoch = checks.integer("first_epoch", first_epoch, 0)
    generator.skip(before + first_epoch * (words + between))
    return _epochs(draw, generator, between)


def _epochs(
    draw: Callable[[Mt19937], NDArray[np.uint32]], generator: Mt19937, between: int
) -> Iterator[NDArray[np.uint32]]:
    while True:
        yield draw(generator)
        generator.skip(between)
