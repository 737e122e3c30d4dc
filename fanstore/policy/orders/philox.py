"""Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC11), TensorFlow's
generator: a block of four words is a function of a counter and a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85  # what is added to the key each round
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox_words(seed: int, seed2: int, first: int, count: int) -> NDArray[np.uint64]:
    """Returns `count` words of TensorFlow's generator, from word `first` on: numbers of 32 bits, as
    uint64. seed, seed2: the two seeds of the generator, 64 bits each."""
    block = first // 4
    counter = np.arange(block, -(-(first + count) // 4), dtype=np.uint64)
    words = [counter & _LOW, counter >> _HALF]
    words += [np.full_like(counter, seed2 >> shift & 0xFFFFFFFF) for shift in (0, 32)]
    key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(_ROUNDS):
        even, odd = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        words = [
            odd >> _HALF ^ words[1] ^ np.uint64(key[0]),
            odd & _LOW,
            even >> _HALF ^ words[3] ^ np.uint64(key[1]),
            even & _LOW,
        ]
        key = [(part + step) & 0xFFFFFFFF for part, step in zip(key, _WEYL, strict=True)]
    blocks = np.stack(words, axis=1).ravel()
    drawn: NDArray[np.uint64] = blocks[first - 4 * block :][:count].copy()
    return drawn
