"""Which values of a parameter are tried in `make test`, and which only in `make soak`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def sampled(values: Iterable[T], kept: Collection[T]) -> list[object]:
    """Parameters of a test: those that are not among `kept` are left to `make soak`."""
    return [v if v in kept else pytest.param(v, marks=pytest.mark.soak) for v in values]
