"""The samplers of torch.utils.data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders import shuffles
from fanstore.policy.orders.generators import Mt19937

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def sequential(sample_count: int, first_epoch: int = 0) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over equal orders: in each epoch all samples in ascending order.
    Raises ValueError for arguments out of range."""
    checks.integer("first_epoch", first_epoch, 0)
    order = np.arange(checks.sample_count(sample_count), dtype=np.uint32)
    order.setflags(write=False)  # because all epochs share the array
    return repeat(order)


# from this count on torch draws 64 bits: a 20th of the largest uint32
_WORDS_OF_64_BITS_FROM = 214_748_364


def randperm_words(sample_count: int) -> int:
    """Returns how many words of its generator randperm draws."""
    return 2 * sample_count if sample_count >= _WORDS_OF_64_BITS_FROM else sample_count - 1


def drawn_randperm(sample_count: int, generator: Mt19937) -> NDArray[np.uint32]:
    """Returns torch.randperm(sample_count, generator=generator), as uint32; it draws randperm_words
    words of the generator."""
    if sample_count >= _WORDS_OF_64_BITS_FROM:
        return shuffles.inside_out(sample_count, generator)
    return shuffles.front(sample_count, generator)


def randperm(sample_count: int, seed: int) -> NDArray[np.uint32]:
    """torch.randperm(sample_count, generator=torch.Generator().manual_seed(seed)), as uint32.

    Raises ValueError for a count that is not 1 to 2**32 - 1, or a seed beyond 64 bits.
    """
    return drawn_randperm(checks.sample_count(sample_count), Mt19937(checks.seed(seed)))


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
    and words_between (None: the same number) between two epochs. Raises ValueError for values out
    of range.
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


_REPLACED_MAX = 2**28 - 1  # with more samples, torch draws 64 bits for each index


class RandomSamples:
    """The numbers that one RandomSampler yields in an epoch that is read to its end."""

    def __init__(self, sample_count: int, num_samples: int | None, replacement: bool) -> None:
        self._count = checks.sample_count(sample_count)
        self._drawn = checks.integer(
            "num_samples", self._count if num_samples is None else num_samples, 1
        )
        self._replacement = checks.flag("replacement", replacement)
        if replacement:
            checks.integer("sample_count with replacement", sample_count, 1, _REPLACED_MAX)

    def words(self) -> int:
        """Returns how many words of the generator an epoch draws."""
        if self._replacement:
            return self._drawn
        return (self._drawn // self._count + 1) * randperm_words(self._count)

    def indices(self, generator: Mt19937) -> NDArray[np.uint32]:
        """Draws the samples of an epoch. As torch does, it draws a last permutation even if none of
        it is read."""
        if self._replacement:
            drawn: NDArray[np.uint64] = generator.take(self._drawn) % np.uint64(self._count)
            return drawn.astype(np.uint32)
        whole, rest = divmod(self._drawn, self._count)
        parts = [drawn_randperm(self._count, generator) for _ in range(whole + (rest > 0))]
        if not rest:
            generator.skip(randperm_words(self._count))
        return (np.concatenate(parts) if whole else parts[0])[: self._drawn]


def random_sampler(
    sample_count: int,
    first_epoch: int = 0,
    *,
    seed: int,
    num_samples: int | None = None,
    replacement: bool = False,
    words_before: int = 2,
    words_per_epoch: int = 4,
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of a RandomSampler without a generator of its
    own, after torch.manual_seed(seed).

    Each epoch draws two words of the default generator, and the second of them seeds a private
    generator. An iterator of a DataLoader first draws two words as the base seed of its workers.
    words_before: how many words are drawn before those of the first sampler; words_per_epoch: how
    many from one sampler's to the next: 4, with persistent workers 2, and 2 more for each further
    iterator that is made in between (validation). If something in the main process draws from the
    default generator, such as augmentation without workers, later epochs cannot be predicted.

    An order has num_samples entries (None: sample_count). Raises ValueError for arguments out of
    range; replacement goes up to 2**28 - 1 samples. Source: torch 2.13 utils/data/sampler.py,
    dataloader.py; compared with it in tests.
    """
    sampler = RandomSamples(sample_count, num_samples, replacement)
    generator = Mt19937(checks.seed(seed))
    gap = checks.integer("words_per_epoch", words_per_epoch, 2) - 2
    first = checks.integer("first_epoch", first_epoch, 0) * words_per_epoch
    generator.skip(checks.integer("words_before", words_before, 0) + first)
    return _seeded(sampler, generator, gap)


def _seeded(sampler: RandomSamples, generator: Mt19937, gap: int) -> Iterator[NDArray[np.uint32]]:
    while True:
        yield sampler.indices(Mt19937(int(generator.take(2)[1])))
        generator.skip(gap)


def random_sampler_generator(
    sample_count: int,
    first_epoch: int = 0,
    *,
    seed: int,
    num_samples: int | None = None,
    replacement: bool = False,
    words_before: int = 2,
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of
    RandomSampler(generator=torch.Generator().manual_seed(seed)), each epoch of it read to its end.

    words_before: how many words others draw from the generator before each epoch: 2 if the
    DataLoader has it too (generator=), for the base seed of its workers; 0 if the sampler alone has
    it. If num_samples is a multiple of sample_count, the sampler draws one permutation more than it
    needs. Shapes, errors and source: see random_sampler.
    """
    sampler = RandomSamples(sample_count, num_samples, replacement)
    return drawn_epochs(
        sampler.indices,
        sampler.words(),
        first_epoch=first_epoch,
        seed=seed,
        words_before=words_before,
        words_between=None,
    )


def subset_random_sampler(
    sample_count: int,
    first_epoch: int = 0,
    *,
    seed: int,
    indices: ArrayLike | None = None,
    words_before: int = 2,
    words_between: int | None = None,
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of SubsetRandomSampler(indices): each is a
    permutation of `indices` (None: all samples).

    seed: the job's argument of torch.manual_seed, or the seed of the sampler's generator.
    words_before: how many words of that generator are drawn before the first epoch's permutation: 2
    if the DataLoader draws the base seed of its workers from it, 0 if the sampler alone has it.
    words_between: the same between two epochs (None: as many): 0 with persistent workers, and 2
    more for each other iterator that is made of a DataLoader, such as one for validation.

    Raises ValueError for arguments out of range, for no indices, and for indices that are no
    samples. Source: torch 2.13 utils/data/sampler.py; compared with it in tests.
    """
    count = checks.sample_count(sample_count)
    chosen = np.arange(count, dtype=np.uint32)
    if indices is not None:
        chosen = checks.reads("indices", indices, count).astype(np.uint32)
    checks.integer("the number of indices", len(chosen), 1)

    def draw(generator: Mt19937) -> NDArray[np.uint32]:
        order: NDArray[np.uint32] = chosen[drawn_randperm(len(chosen), generator)]
        return order

    return drawn_epochs(
        draw,
        randperm_words(len(chosen)),
        first_epoch=first_epoch,
        seed=seed,
        words_before=words_before,
        words_between=words_between,
    )


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
    """Returns an endless iterator over the orders of WeightedRandomSampler(weights, num_samples,
    replacement). Each has num_samples entries (None: sample_count), and a sample may come often or
    never.

    weights: one number for each sample, 0 or more, with any sum above 0. seed, words_before and
    words_between are those of subset_random_sampler. Without replacement, two samples may change
    places if their random keys are equal but for rounding: torch may round in another way.

    Raises ValueError for arguments out of range, for more than 2**24 samples, and if without
    replacement fewer than num_samples weights are above 0. Source: torch 2.13 utils/data/sampler.py
    and torch.multinomial on the CPU; compared with it in tests.
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
    """Returns a function that draws one epoch of a WeightedRandomSampler from a generator, and the
    number of words that it draws. For arguments and errors see weighted_random_sampler."""
    count = checks.integer("sample_count with weights", sample_count, 1, _SAMPLES_MAX)
    given = _checked(weights, count)
    drawn = checks.integer("num_samples", count if num_samples is None else num_samples, 1)
    if checks.flag("replacement", replacement) and drawn > 1:
        words = 2 * drawn
        edges = _cumulative(given)

        def draw(generator: Mt19937) -> NDArray[np.uint32]:
            return np.searchsorted(edges, _uniform(generator, drawn)).astype(np.uint32)
    else:
        # torch draws a single sample in this way, even with replacement.
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
    """Returns for each sample the upper end of its part of the interval from 0 to 1."""
    edges: NDArray[np.float64] = np.cumsum(weights)
    edges /= edges[-1]
    edges[-1] = 1
    return edges


def _uniform(generator: Mt19937, count: int) -> NDArray[np.float64]:
    """Draws numbers from 0 to 1 as torch does: 53 bits from two words, of which the first is the
    high one."""
    words = generator.take(2 * count)
    bits = (words[::2] << np.uint64(32) | words[1::2]) & np.uint64(2**53 - 1)
    numbers: NDArray[np.float64] = bits.astype(np.float64) * 2.0**-53
    return numbers
