"""Which values of a parameter are tried in `make test`, and which only in `make soak`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

T = TypeVar("T")


def sampled(values: Iterable[T], kept: Callable[[T], bool]) -> list[object]:
    """Parameters: those that `kept` says no to are left to `make soak`."""
    return [v if kept(v) else pytest.param(v, marks=pytest.mark.soak) for v in values]
