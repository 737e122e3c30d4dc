"""The shuffles of csrc/policy/shuffle.h. Each takes the words of a generator in stretches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanstore._native import ffi, lib
from fanstore.arrays import np
from fanstore.policy.orders.generators import Mt19937

if TYPE_CHECKING:
    from numpy.typing import NDArray

_STRETCH_WORDS = 1 << 16  # 512 KiB, which stay in a processor cache


def _items(array: NDArray[np.uint32]) -> Any:
    return ffi.from_buffer("uint32_t[]", array, require_writable=True)


def _words(array: NDArray[np.uint64]) -> Any:
    return ffi.from_buffer("uint64_t[]", array)


def front(count: int, generator: Mt19937) -> NDArray[np.uint32]:
    """Returns the numbers below `count` after a Fisher-Yates shuffle from the front, which draws
    count - 1 words."""
    items = np.arange(count, dtype=np.uint32)
    for done in range(0, count - 1, _STRETCH_WORDS):
        words = generator.take(min(_STRETCH_WORDS, count - 1 - done))
        lib.fan_shuffle_front(_items(items), count, done, _words(words), len(words))
    return items


def some(items: NDArray[np.uint32], words: NDArray[np.uint64]) -> None:
    """Draws len(words) elements of `items` without replacement, and moves them to its front."""
    lib.fan_shuffle_front(_items(items), len(items), 0, _words(words), len(words))


def inside_out(count: int, generator: Mt19937) -> NDArray[np.uint32]:
    """Returns the numbers below `count` after an inside-out Fisher-Yates shuffle with numbers of 64
    bits, which draws 2 * count words."""
    items = np.empty(count, dtype=np.uint32)
    for done in range(0, count, _STRETCH_WORDS // 2):
        words = generator.take(2 * min(_STRETCH_WORDS // 2, count - done))
        lib.fan_shuffle_inside_out(_items(items), count, done, _words(words), len(words))
    return items


def libstdcxx(count: int, generator: Mt19937) -> NDArray[np.uint32]:
    """Returns the numbers below `count`, shuffled as std::shuffle of libstdc++ does (GCC 11 and
    newer)."""
    items = np.arange(count, dtype=np.uint32)
    done = 1
    while done < count:
        words = generator.take(min(_STRETCH_WORDS, count))
        done = lib.fan_shuffle_libstdcxx(_items(items), count, done, _words(words), len(words))
    return items


def through_buffer(count: int, buffer_size: int, words: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Returns the numbers below `count` in the order in which they leave a shuffle buffer.

    words: one word of 32 bits for each number. Source: tf.data's shuffle.
    """
    items = np.arange(count, dtype=np.uint32)
    buffer_size = min(buffer_size, count)
    buffer = np.empty(buffer_size, dtype=np.uint32)
    lib.fan_shuffle_buffer(_items(items), count, _items(buffer), buffer_size, _words(words))
    return items
