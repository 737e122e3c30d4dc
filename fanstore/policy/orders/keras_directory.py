"""keras.utils.image_dataset_from_directory(shuffle=True)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.tf_data_shuffle import DEFAULT_GLOBAL_SEED, tf_data_shuffle

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BUFFERED_BATCHES = 8


def keras_directory(
    sample_count: int,
    first_epoch: int = 0,
    *,
    batch_size: int,
    seed: int,
    global_seed: int = DEFAULT_GLOBAL_SEED,
) -> Iterator[NDArray[np.uint32]]:
    """The order in which files are read. Sample numbers are places in the sorted listing (classes
    by name, in each the files by path): it is shuffled once, and paths, not yet read, then pass
    through tf.data's shuffle of eight batches. Without a validation split.

    Raises ValueError for arguments out of range. Source: Keras' image_dataset_utils.py; compared
    with Keras 3.15.
    """
    seed = checks.integer("seed", seed, 0, 2**32 - 1)
    buffer_size = _BUFFERED_BATCHES * checks.integer("batch_size", batch_size, 1)
    orders = tf_data_shuffle(
        sample_count, first_epoch, buffer_size=buffer_size, seed=seed, global_seed=global_seed
    )
    listing = np.random.RandomState(seed).permutation(sample_count).astype(np.uint32)
    return (listing[order] for order in orders)
