"""The orders of DALI, grain and tf.data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, repeat
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.generators import Mt19937, philox_words, seed_seq
from fanstore.policy.orders.shuffles import libstdcxx, through_buffer

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_GLOBAL_SEED = 87654321  # the seed of a job that never calls tf.random.set_seed


_SEED = 524287  # fixed in DALI; the reader's own seed only chooses among samples in memory


def dali_random_shuffle(sample_count: int, first_epoch: int = 0) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the order in which files are read, of all ranks together and
    the same each epoch (rotating_shard gives the part of one). Sample numbers are places in the
    sorted listing.

    Raises ValueError for arguments out of range. Source: DALI's file label loader, std::shuffle
    with mt19937; compared with DALI 2.4. shuffle_after_epoch gives another order, not supported
    here.
    """
    checks.integer("first_epoch", first_epoch, 0)
    order = libstdcxx(checks.sample_count(sample_count), Mt19937(_SEED))
    order.setflags(write=False)  # because all epochs share the array
    return repeat(order)


def rotating_shard(
    order: NDArray[Any], rank: int, world_size: int, *, epoch: int, stick_to_shard: bool = False
) -> NDArray[Any]:
    """Returns the reads of a rank in an order, as a part of `order`: one of world_size stretches,
    each epoch the next one unless stick_to_shard. Raises ValueError for arguments out of range."""
    world_size = checks.integer("world_size", world_size, 1)
    shard = checks.integer("rank", rank, 0, world_size - 1)
    epoch = checks.integer("epoch", epoch, 0)
    if not checks.flag("stick_to_shard", stick_to_shard):
        shard = (shard + epoch) % world_size
    return order[len(order) * shard // world_size : len(order) * (shard + 1) // world_size]


_ROUNDS = 4
_BLOCK_BITS_MIN = 16


def grain_index_shuffle(
    sample_count: int, first_epoch: int = 0, *, seed: int
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of grain's shuffle.

    Each place of an epoch is enciphered with keys of (seed + epoch) % 2**32, again and again until
    the result is below sample_count: four rounds of a Feistel cipher (Simon's round).

    seed: the argument of shuffle or IndexSampler (MapDataset.seed derives another one from its own,
    not supported here; of several shards each is shuffled by itself). If sample_count - 1 is 2**16,
    2**18 and so on, the block is a bit too small, as in grain: one sample comes twice, the last one
    never. Raises ValueError for arguments out of range. Source: grain's index_shuffle.cc; compared
    with grain 0.2.18.
    """
    checks.sample_count(sample_count)
    seed = checks.integer("seed", seed, 0, 2**32 - 1)
    first_epoch = checks.integer("first_epoch", first_epoch, 0)
    return (_order(sample_count, (seed + epoch) % 2**32) for epoch in count(first_epoch))


def _order(sample_count: int, seed: int) -> NDArray[np.uint32]:
    if sample_count == 1:
        return np.zeros(1, dtype=np.uint32)
    bits = (sample_count - 2).bit_length()
    half_bits = max(bits + bits % 2, _BLOCK_BITS_MIN) // 2
    keys = seed_seq(seed, _ROUNDS)
    places = np.arange(sample_count, dtype=np.uint32)
    if 2 * half_bits == _BLOCK_BITS_MIN:
        walked: NDArray[np.uint32] = _walked(sample_count, keys)[
            places & np.uint32((1 << _BLOCK_BITS_MIN) - 1)
        ]
        return walked
    order = _encipher(places, keys, half_bits)
    astray = np.flatnonzero(order >= sample_count)
    while astray.size:
        order[astray] = _encipher(order[astray], keys, half_bits)
        astray = astray[order[astray] >= sample_count]
    return order


def _walked(sample_count: int, keys: list[int]) -> NDArray[np.uint32]:
    """Returns, for each number of 16 bits, the first number below sample_count that repeated
    enciphering leads to. That may take many steps, so each pass doubles the number of steps.
    Numbers from sample_count on may never lead to one, but they are not used."""
    block = np.arange(1 << _BLOCK_BITS_MIN, dtype=np.uint32)
    ends = _encipher(block, keys, _BLOCK_BITS_MIN // 2)
    while (ends[:sample_count] >= sample_count).any():
        ends = np.where(ends < sample_count, ends, ends[ends])
    return ends


def _encipher(values: NDArray[np.uint32], keys: list[int], bits: int) -> NDArray[np.uint32]:
    """Returns enciphered values, each of two halves of `bits` bits (Feistel)."""
    mask = np.uint32((1 << bits) - 1)
    left, right = values >> np.uint32(bits) & mask, values & mask
    for key in keys:
        left, right = right, left ^ _mixed(right, bits) ^ np.uint32(key) & mask
    enciphered: NDArray[np.uint32] = left << np.uint32(bits) | right
    return enciphered


def _mixed(half: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    """Applies Simon's round function to halves of `bits` bits: combines rotations by 1, 8 and 2
    bits."""
    one, eight, two = ((half << np.uint32(n) | half >> np.uint32(bits - n)) for n in (1, 8, 2))
    mixed: NDArray[np.uint32] = (one & eight ^ two) & np.uint32((1 << bits) - 1)
    return mixed


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
    """Returns an endless iterator over the orders in which samples leave shuffle(buffer_size,
    seed); each epoch makes a new iterator of it. Samples are *read* in the order of the dataset,
    buffer_size ahead.

    An iterator takes two words of the generator of (global_seed, seed) as its own seeds; without
    reshuffle_each_iteration its seeds are those two. Raises ValueError for arguments out of range.
    Source: TensorFlow's core/kernels/data/shuffle_dataset_op.cc; compared with TensorFlow 2.21.
    """
    checks.sample_count(sample_count)
    buffer_size = checks.integer("buffer_size", buffer_size, 1)
    checks.integer("global_seed", global_seed, -(2**63), 2**64 - 1)
    seeds = global_seed % _SEEDS, checks.seed(seed) % _SEEDS
    reshuffle = checks.flag("reshuffle_each_iteration", reshuffle_each_iteration)
    if seeds == (0, 0):  # which would mean a random seed
        seeds = 0, _SEEDS

    def order(epoch: int) -> NDArray[np.uint32]:
        own = seeds
        if reshuffle:
            first, second = philox_words(*seeds, 2 * epoch, 2)
            own = int(first), int(second)
        return through_buffer(sample_count, buffer_size, philox_words(*own, 0, sample_count))

    return map(order, count(checks.integer("first_epoch", first_epoch, 0)))
