"""grain's index_shuffle: MapDataset.shuffle, and IndexSampler of one shard."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.seed_seq import seed_seq

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUNDS = 4
_BLOCK_BITS_MIN = 16


def grain_index_shuffle(
    sample_count: int, first_epoch: int = 0, *, seed: int
) -> Iterator[NDArray[np.uint32]]:
    """Returns an endless iterator over the orders of grain's shuffle.

    Each place of an epoch is enciphered with keys of (seed + epoch) % 2**32, again and again until
    the result is below sample_count: four rounds of a Feistel cipher (Simon's round).

    seed: what shuffle or IndexSampler is given (MapDataset.seed derives another one from its own,
    not known here; of several shards each is shuffled by itself). Where sample_count - 1 is 2**16,
    2**18 and so on, the block is a bit too small, as in grain: one sample comes twice, the last
    one never. Raises ValueError for arguments out of range. Source: grain's index_shuffle.cc;
    compared with grain 0.2.18.
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
    """Returns for each number of 16 bits the first one below sample_count that enciphering leads
    to, again and again. That can take many steps, and so each pass doubles them. Numbers from
    sample_count on may never get there; nobody asks for those."""
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
    """Returns what Simon's round function makes of halves of `bits` bits: it rotates them by 1, 8
    and 2 bits."""
    one, eight, two = ((half << np.uint32(n) | half >> np.uint32(bits - n)) for n in (1, 8, 2))
    mixed: NDArray[np.uint32] = (one & eight ^ two) & np.uint32((1 << bits) - 1)
    return mixed
