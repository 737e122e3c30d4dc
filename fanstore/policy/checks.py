"""Checks of arguments. Each raises ValueError with the name, the value and what is allowed."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

SAMPLES_MAX = 2**32 - 1  # an order holds a sample in 32 bits


def integer(name: str, value: Any, lowest: int, highest: int | None = None) -> int:
    """Returns an integer from `lowest` to `highest` (None: no limit)."""
    allowed = f"{lowest} or more" if highest is None else f"{lowest} to {highest}"
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} is {value!r}; allowed are integers, {allowed}") from None
    if isinstance(value, bool) or number < lowest or (highest is not None and number > highest):
        raise ValueError(f"{name} is {value!r}; allowed are integers, {allowed}")
    return number


def sample_count(value: Any) -> int:
    """Returns a number of samples that an order can hold."""
    return integer("sample_count", value, 1, SAMPLES_MAX)


def seed(value: Any) -> int:
    """Returns a seed as torch takes it: 64 bits, with or without a sign."""
    return integer("seed", value, -(2**63), 2**64 - 1)


def rate(name: str, value: float) -> float:
    """Returns a number above 0."""
    if not value > 0 or value == float("inf"):
        raise ValueError(f"{name} is {value!r}; allowed are numbers above 0")
    return float(value)


def fraction(name: str, value: float) -> float:
    """Returns a number from 0 to 1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value!r}; allowed are numbers from 0 to 1")
    return float(value)


def sizes(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Returns one number of bytes for each file, none below 0."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and array.min() < 0):
        raise ValueError(f"{name} are {array.dtype}{array.shape}; allowed is one row of bytes >= 0")
    return array.astype(np.int64, copy=False)


def reads(name: str, values: ArrayLike, count: int) -> NDArray[Any]:
    """Returns what is read, one after the other: numbers of samples below `count`."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} is {array.dtype}{array.shape}; allowed is one row of integers")
    if array.size and (array.min() < 0 or array.max() >= count):
        raise ValueError(f"{name} has samples {array.min()} to {array.max()} of {count}")
    return array
