"""The generators of random numbers that frameworks shuffle with: the Mersenne Twister of torch,
NumPy and C++, std::seed_seq, and Philox4x32-10 of TensorFlow (Salmon et al., Parallel random
numbers: as easy as 1, 2, 3, SC11), which computes blocks of four words from a counter and a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Mt19937:
    """A Mersenne Twister (MT19937), seeded as torch.manual_seed does: only 32 bits of the seed
    count."""

    def __init__(self, seed: int) -> None:
        seeded = np.random.RandomState(seed & 0xFFFFFFFF).get_state(legacy=False)
        self._bits = np.random.MT19937(0)
        self._bits.state = {"bit_generator": "MT19937", "state": seeded["state"]}

    @classmethod
    def at(cls, words: NDArray[np.uint32], place: int) -> Mt19937:
        """Returns a generator in a given state: its 624 words, and the position of the next
        word."""
        generator = cls(0)
        state: Any = {"key": words, "pos": place}
        generator._bits.state = {"bit_generator": "MT19937", "state": state}
        return generator

    def take(self, count: int) -> NDArray[np.uint64]:
        """Returns the next `count` words of the generator: numbers of 32 bits, as uint64."""
        return self._bits.random_raw(count)

    def skip(self, count: int) -> None:
        """Draws `count` words and drops them."""
        self._bits.random_raw(count, output=False)


_WORDS = 624
_SIZES = (5048, 5056)  # the bytes of a state before and since torch 1.6
_STATE = np.dtype(
    [("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8"), ("words", "<u8", _WORDS)]
)


def generator_at(state: bytes) -> Mt19937:
    """Returns a generator that continues as torch's does from `state`. Raises ValueError for bytes
    that are no such state. Source: torch 2.13 aten/src/ATen/CPUGeneratorImpl.cpp; compared with it
    in tests."""
    if len(state) not in _SIZES:
        raise ValueError(f"a generator's state has {len(state)} bytes; allowed are {_SIZES}")
    found = np.frombuffer(state, _STATE, 1)[0]
    left, place = int(found["left"]), int(found["next"])
    if not 1 <= left <= _WORDS or place > _WORDS or found["words"].max() >= 2**32:
        raise ValueError(f"a generator's state has {left} words left at {place}")
    return Mt19937.at(found["words"].astype(np.uint32), _WORDS if left == 1 else place)


_BITS = 0xFFFFFFFF


def _spread(value: int) -> int:
    value &= _BITS
    return value ^ value >> 27


def seed_seq(seed: int, count: int) -> list[int]:
    """Returns the numbers that a generate() of `count` numbers writes: 32 bits each, `count` from 4
    to 6."""
    x = [0x8B8B8B8B] * count
    step = (count - (count - 1) // 2) // 2
    far = step + (count - 1) // 2
    added = [1, 1 + seed]  # the number of seeds, then position and seed
    for k in range(count):
        near, last = (k + step) % count, (k + far) % count
        one = 1664525 * _spread(x[k] ^ x[near] ^ x[k - 1])
        two = one + (added[k] if k < 2 else k)
        x[near] = x[near] + one & _BITS
        x[last] = x[last] + two & _BITS
        x[k] = two & _BITS
    for k in range(count):
        near, last = (k + step) % count, (k + far) % count
        one = 1566083941 * _spread(x[k] + x[near] + x[k - 1])
        two = one - k
        x[near] ^= one & _BITS
        x[last] ^= two & _BITS
        x[k] = two & _BITS
    return x


_PHILOX_ROUNDS = 10
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85  # added to the key in each round
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
    for _ in range(_PHILOX_ROUNDS):
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
