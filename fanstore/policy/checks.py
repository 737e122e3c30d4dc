"""Checks of arguments. Each raises ValueError, which gives the name, the value and the allowed
values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SAMPLES_MAX = 2**32 - 1  # an order stores sample numbers in 32 bits
BYTES_MAX = 2**63 - 1  # the most bytes of all files or all capacities together
_EPOCHS = 2**32  # the most epochs; no job has more


def integer(name: str, value: Any, lowest: int, highest: int | None = None) -> int:
    """Returns `value`, which must be an integer from `lowest` to `highest` (None: no limit)."""
    allowed = f"{lowest} or more" if highest is None else f"{lowest} to {highest}"
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; allowed are integers, {allowed}") from None
    if isinstance(value, bool) or number < lowest or (highest is not None and number > highest):
        raise ValueError(f"{name} is {value!r}; allowed are integers, {allowed}")
    return number


def sample_count(value: Any) -> int:
    """Returns `value`, which must be a number of samples that an order can hold."""
    return integer("sample_count", value, 1, SAMPLES_MAX)


def seed(value: Any) -> int:
    """Returns `value`, which must be a seed that torch accepts: 64 bits, with or without a sign."""
    return integer("seed", value, -(2**63), 2**64 - 1)


def seed_of_epochs(value: Any, first_epoch: int) -> int:
    """Returns `value`, which must be a seed to which torch's users add the number of the epoch. The
    sums must be seeds, too."""
    first = seed(value)
    integer("seed + first_epoch", first + first_epoch, -(2**63), 2**64 - 1 - _EPOCHS)
    return first


def flag(name: str, value: Any) -> bool:
    """Returns `value`, which must be True or False. The error writes these in lower case, as TOML
    and the command line do."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}; allowed are true and false")
    return bool(value)


def rate(name: str, value: Any) -> float:
    """Returns `value`, which must be a number above 0."""
    return _number(name, value, "numbers above 0", lambda number: 0 < number < float("inf"))


def amount(name: str, value: Any) -> float:
    """Returns `value`, which must be a number, 0 or more."""
    return _number(name, value, "numbers, 0 or more", lambda number: 0 <= number < float("inf"))


def fraction(name: str, value: Any) -> float:
    """Returns `value`, which must be a number from 0 to 1."""
    return _number(name, value, "numbers from 0 to 1", lambda number: 0 <= number <= 1)


def _number(name: str, value: Any, allowed: str, fits: Callable[[Any], bool]) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not fits(value):
        raise ValueError(f"{name} is {value!r}; allowed are {allowed}")
    return float(value)


def integers(values: ArrayLike) -> NDArray[Any]:
    """Returns `values` as an array. An empty list becomes an array of integers, where NumPy makes
    one of floats."""
    array = np.asarray(values)
    return array if array.size or array.dtype.kind in "iu" else array.astype(np.int64)


def total_bytes(name: str, array: NDArray[np.integer]) -> int:
    """Returns the sum of an array of non-negative integers. Raises ValueError if it needs more than
    63 bits."""
    wide = array.astype(np.uint64, copy=False)
    # the sums of 32-bit halves do not overflow
    halves = wide >> np.uint64(32), wide & np.uint64(0xFFFFFFFF)
    total = (int(halves[0].sum()) << 32) + int(halves[1].sum())
    if total > BYTES_MAX:
        raise ValueError(f"{name} are {total} bytes together; allowed are up to {BYTES_MAX}")
    return total


def sizes(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Returns `values` as an array: the bytes of each file, none negative."""
    array = integers(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.min() < 0):
        raise ValueError(f"{name} are {array.dtype}{array.shape}; allowed is one row of bytes >= 0")
    total_bytes(name, array)
    return array.astype(np.int64, copy=False)


def reads(name: str, values: ArrayLike, count: int) -> NDArray[Any]:
    """Returns `values` as an array of reads: numbers of samples below `count`."""
    array = integers(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} is {array.dtype}{array.shape}; allowed is one row of integers")
    if array.size and (array.min() < 0 or array.max() >= count):
        raise ValueError(f"{name} has samples {array.min()} to {array.max()} of {count}")
    return array
