"""tf.data.Dataset.shuffle of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.philox import philox_words
from fanstore.policy.orders.shuffles import through_buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_GLOBAL_SEED = 87654321  # of a job that never called tf.random.set_seed
_SEEDS = 2**31 - 1


def tf_data_shuffle(
    sample_count: int,
    first_epoch: int = 0,
    *,
    buffer_size: int,
    seed: int,
    global_seed: int = DEFAULT_GLOBAL_SEED,
    reshuffle_each_iteration: bool = True,
) -> Iterator[NDArray[np.uint32]]:
    """The order in which samples leave shuffle(buffer_size, seed), of which each epoch makes a new
    iterator. Samples are *read* in the order of the dataset before it, buffer_size ahead.

    An iterator takes two words of the generator of (global_seed, seed) as its own seeds; without
    reshuffle_each_iteration each has those two. Raises ValueError for arguments out of range.
    Source: TensorFlow's core/kernels/data/shuffle_dataset_op.cc; compared with TensorFlow 2.21.
    """
    checks.sample_count(sample_count)
    buffer_size = checks.integer("buffer_size", buffer_size, 1)
    checks.integer("global_seed", global_seed, -(2**63), 2**64 - 1)
    seeds = global_seed % _SEEDS, checks.seed(seed) % _SEEDS
    reshuffle = checks.flag("reshuffle_each_iteration", reshuffle_each_iteration)
    if seeds == (0, 0):  # which would ask for a seed by chance
        seeds = 0, _SEEDS

    def order(epoch: int) -> NDArray[np.uint32]:
        own = seeds
        if reshuffle:
            first, second = philox_words(*seeds, 2 * epoch, 2)
            own = int(first), int(second)
        return through_buffer(sample_count, buffer_size, philox_words(*own, 0, sample_count))

    return map(order, count(checks.integer("first_epoch", first_epoch, 0)))
