"""torch.utils.data.RandomSampler, which DataLoader(shuffle=True) uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.drawn_epochs import drawn_epochs
from fanstore.policy.orders.mt19937 import Mt19937
from fanstore.policy.orders.randperm import drawn_randperm, randperm_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REPLACED_MAX = 2**28 - 1  # beyond, torch draws 64 bits for each index


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
        """Draws the samples of an epoch. As torch does, it draws a last permutation even where none
        of it is read."""
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
    words_before: what is drawn before the first sampler's; words_per_epoch: how many from one
    sampler's to the next: 4, with persistent workers 2, and 2 more for each further iterator
    that is made in between (validation). Something in the main process that draws from the default
    generator, such as augmentation without workers, makes later epochs unpredictable.

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

    words_before: what else is drawn from the generator before each epoch: 2 where the DataLoader
    has it too (generator=), for the base seed of its workers; 0 where the sampler alone has it.
    The sampler draws one permutation more than it needs where num_samples is a multiple of
    sample_count. Shapes, errors and source as those of random_sampler.
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
