"""torch.utils.data.WeightedRandomSampler: samples are drawn as often as their weights say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.drawn_epochs import drawn_epochs
from fanstore.policy.orders.mt19937 import Mt19937

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_SAMPLES_MAX = 2**24  # torch.multinomial refuses more


def weighted_random_sampler(
    sample_count: int,
    first_epoch: int = 0,
    *,
    seed: int,
    weights: ArrayLike,
    num_samples: int | None = None,
    replacement: bool = True,
    words_before: int = 2,
    words_between: int | None = None,
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of
    WeightedRandomSampler(weights, num_samples, replacement). Each has num_samples entries (None:
    sample_count), and a sample may come often or never.

    weights: one number for each sample, 0 or more, with any sum above 0. seed, words_before and
    words_between are those of subset_random_sampler. Without replacement two samples change places
    where their random keys are equal but for rounding, which torch may round in another way.

    Raises ValueError for arguments out of range, for more than 2**24 samples, and where without
    replacement fewer than num_samples weights are above 0. Source: torch 2.13
    utils/data/sampler.py and torch.multinomial on the CPU; compared with it in tests.
    """
    draw, words = weighted_samples(sample_count, weights, num_samples, replacement)
    return drawn_epochs(
        draw,
        words,
        first_epoch=first_epoch,
        seed=seed,
        words_before=words_before,
        words_between=words_between,
    )


def weighted_samples(
    sample_count: int, weights: ArrayLike, num_samples: int | None, replacement: bool
) -> tuple[Callable[[Mt19937], NDArray[np.uint32]], int]:
    """Returns what draws one epoch of a WeightedRandomSampler from a generator, and how many words
    of it that takes. Arguments and errors as those of weighted_random_sampler."""
    count = checks.integer("sample_count with weights", sample_count, 1, _SAMPLES_MAX)
    given = _checked(weights, count)
    drawn = checks.integer("num_samples", count if num_samples is None else num_samples, 1)
    if checks.flag("replacement", replacement) and drawn > 1:
        words = 2 * drawn
        edges = _cumulative(given)

        def draw(generator: Mt19937) -> NDArray[np.uint32]:
            return np.searchsorted(edges, _uniform(generator, drawn)).astype(np.uint32)
    else:
        # torch draws a single sample in this way, too.
        words = 2 * count
        possible = int(np.count_nonzero(given))
        checks.integer("num_samples without replacement", drawn, 1, possible)

        def draw(generator: Mt19937) -> NDArray[np.uint32]:
            keys = given / -np.log1p(-_uniform(generator, count))
            return np.argsort(-keys, kind="stable")[:drawn].astype(np.uint32)

    return draw, words


def _checked(weights: ArrayLike, count: int) -> NDArray[np.float64]:
    given = np.asarray(weights)
    if given.shape != (count,) or given.dtype.kind not in "iuf":
        raise ValueError(
            f"weights are {given.dtype}{given.shape}; allowed is one number for each of "
            f"{count} samples"
        )
    wide: NDArray[np.float64] = given.astype(np.float64)
    if not (np.isfinite(wide).all() and wide.min() >= 0 and 0 < wide.sum() < np.inf):
        raise ValueError(
            f"weights go from {wide.min()} to {wide.max()}; allowed are finite numbers, 0 or more, "
            "and not all 0"
        )
    return wide


def _cumulative(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns for each sample where its part of the numbers from 0 to 1 ends."""
    edges: NDArray[np.float64] = np.cumsum(weights)
    edges /= edges[-1]
    edges[-1] = 1
    return edges


def _uniform(generator: Mt19937, count: int) -> NDArray[np.float64]:
    """Draws numbers from 0 to 1 as torch does: 53 bits of two words each, the high word first."""
    words = generator.take(2 * count)
    bits = (words[::2] << np.uint64(32) | words[1::2]) & np.uint64(2**53 - 1)
    numbers: NDArray[np.float64] = bits.astype(np.float64) * 2.0**-53
    return numbers
