"""torch.utils.data.SubsetRandomSampler: a random order of chosen samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.drawn_epochs import drawn_epochs
from fanstore.policy.orders.mt19937 import Mt19937
from fanstore.policy.orders.randperm import drawn_randperm, randperm_words

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


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

    seed: what the job gave torch.manual_seed, or the generator of the sampler. words_before: how
    many words of that generator are drawn before the first epoch's permutation: 2 where the
    DataLoader draws the base seed of its workers from it, 0 where the sampler alone has it.
    words_between: the same between two epochs (None: as many): 0 with persistent workers, and 2
    more for each other iterator that is made of a DataLoader, such as one for validation.

    Raises ValueError for arguments out of range, and for indices that are none or no samples.
    Source: torch 2.13 utils/data/sampler.py; compared with it in tests.
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
