"""Which values of parameters are tried in `make test`, and which only in `make soak`."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")
MARKED = type(pytest.param())


def sampled(values: Iterable[T], kept: Collection[T]) -> list[object]:
    """Parameters of a test: those that are not among `kept` are left to `make soak`."""
    return [v if v in kept else pytest.param(v, marks=pytest.mark.soak) for v in values]


def combined(*parameters: Sequence[object]) -> list[object]:
    """All combinations of the values of several parameters, which may have marks of their own.
    `make test` takes as few as have each value at least once; `make soak` takes the others."""
    count = max(len(values) for values in parameters)
    kept = {tuple(n % len(values) for values in parameters) for n in range(count)}
    found: list[object] = []
    for numbers in itertools.product(*(range(len(values)) for values in parameters)):
        chosen = [values[n] for values, n in zip(parameters, numbers, strict=True)]
        each = [value if isinstance(value, MARKED) else pytest.param(value) for value in chosen]
        marks = [mark for value in each for mark in value.marks]
        if numbers not in kept:
            marks.append(pytest.mark.soak)
        found.append(pytest.param(*(part for value in each for part in value.values), marks=marks))
    return found
