"""Which values of parameters are tried in `make test`, and which only in `make soak`."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
MARKED = type(pytest.param())


def sampled(values: Iterable[T], kept: Collection[T]) -> list[object]:
    """Parameters of a test: those that are not among `kept` are left to `make soak`."""
    return [value if value in kept else left(value) for value in values]


def one_of(count: int, values: Sequence[T]) -> list[object]:
    """Parameters of a test that are much alike: `make test` takes one of each `count`."""
    return [value if n % count == 0 else left(value) for n, value in enumerate(values)]


def left(value: object) -> object:
    """A value that is left to `make soak`; it may have marks of its own."""
    param = value if isinstance(value, MARKED) else pytest.param(value)
    return pytest.param(*param.values, marks=[*param.marks, pytest.mark.soak], id=param.id)


def combined(*parameters: Sequence[object]) -> list[object]:
    """All combinations of the values of several parameters, which may have marks of their own. Of
    those `make test` takes as few as have each value that it takes, and `make soak` the rest."""
    columns = [
        [value if isinstance(value, MARKED) else pytest.param(value) for value in values]
        for values in parameters
    ]
    quick = [[n for n, value in enumerate(values) if not is_soak(value)] for values in columns]
    count = max(len(numbers) for numbers in quick)
    kept = {tuple(numbers[n % len(numbers)] for numbers in quick) for n in range(count)}
    found: list[object] = []
    for numbers in itertools.product(*(range(len(values)) for values in columns)):
        chosen = [values[n] for values, n in zip(columns, numbers, strict=True)]
        marks = [mark for value in chosen for mark in value.marks]
        if numbers not in kept:
            marks.append(pytest.mark.soak)
        found.append(pytest.param(*(part for each in chosen for part in each.values), marks=marks))
    return found


def is_soak(value: Any) -> bool:
    """Whether a value is left to `make soak` by itself."""
    return any(mark.name == "soak" for mark in value.marks)
