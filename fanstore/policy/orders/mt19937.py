"""The generator of torch's CPU, of NumPy's RandomState and of std::mt19937, from a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Mt19937:
    """A Mersenne Twister (MT19937) as torch.manual_seed leaves it: 32 bits of the seed count."""

    def __init__(self, seed: int) -> None:
        seeded = np.random.RandomState(seed & 0xFFFFFFFF).get_state(legacy=False)
        self._bits = np.random.MT19937(0)
        self._bits.state = {"bit_generator": "MT19937", "state": seeded["state"]}

    @classmethod
    def at(cls, words: NDArray[np.uint32], place: int) -> Mt19937:
        """Returns a generator in a given state: its 624 words, and which of them comes next."""
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
