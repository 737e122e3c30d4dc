"""torch.randperm on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders import shuffles
from fanstore.policy.orders.mt19937 import Mt19937

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORDS_OF_64_BITS_FROM = 214_748_364  # torch: a 20th of the largest uint32


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
