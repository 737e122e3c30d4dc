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
_BUFFERED_UNBATCHED = 1024
_SUBSETS = ("training", "validation")


def keras_directory(
    sample_count: int,
    first_epoch: int = 0,
    *,
    batch_size: int | None,
    seed: int,
    validation_split: float = 0,
    subset: str = "training",
    global_seed: int = DEFAULT_GLOBAL_SEED,
) -> Iterator[NDArray[np.uint32]]:
    """The order in which files are read. Sample numbers are places in the sorted listing (classes
    by name, in each the files by path): it is shuffled once, and paths, not yet read, then pass
    through tf.data's shuffle of eight batches.

    validation_split: the fraction of the shuffled listing, at its end, that is the validation
    subset; subset: which of the two is read. (Of subset="both" the validation data is not shuffled
    again: that is not this order.) Raises ValueError for arguments out of range, and where
    validation_split leaves one subset without files. Source: Keras' image_dataset_utils.py;
    compared with Keras 3.15.
    """
    checks.sample_count(sample_count)
    seed = checks.integer("seed", seed, 0, 2**32 - 1)
    buffer_size = _BUFFERED_UNBATCHED
    if batch_size is not None:
        buffer_size = _BUFFERED_BATCHES * checks.integer("batch_size", batch_size, 1)
    listing = np.random.RandomState(seed).permutation(sample_count).astype(np.uint32)
    files = _subset(listing, checks.fraction("validation_split", validation_split), subset)
    orders = tf_data_shuffle(
        len(files), first_epoch, buffer_size=buffer_size, seed=seed, global_seed=global_seed
    )
    return (files[order] for order in orders)


def _subset(
    listing: NDArray[np.uint32], validation_split: float, subset: str
) -> NDArray[np.uint32]:
    if subset not in _SUBSETS:
        raise ValueError(f"subset is {subset!r}; allowed are {', '.join(_SUBSETS)}")
    validation = int(validation_split * len(listing))
    if validation_split and not 0 < validation < len(listing):
        raise ValueError(
            f"validation_split is {validation_split!r} of {len(listing)} samples; "
            "allowed is what leaves some for each subset"
        )
    if subset == "validation" and not validation:
        raise ValueError("subset is 'validation' of no validation_split; allowed is 'training'")
    cut = len(listing) - validation
    return listing[cut:] if subset == "validation" else listing[:cut]
