"""Writes the arrays of a batch into a slot of the staging area, and reads them from it. Each array
begins at a multiple of 64 bytes."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np

from fanstore.coordinate.errors import CoordinationError
from fanstore.coordinate.messages import ArrayLayout

_ALIGN = 64
Array = np.ndarray[Any, Any]


def store(area: mmap.mmap, at: int, room: int, arrays: Sequence[Any]) -> list[ArrayLayout]:
    """Copies arrays (or bytes) to offset `at` of a staging area, into at most `room` bytes; returns
    their layout. Raises CoordinationError if they do not fit or hold Python objects."""
    made = [np.frombuffer(a, np.uint8) if isinstance(a, bytes) else np.asarray(a) for a in arrays]
    layout: list[ArrayLayout] = []
    end = 0
    for array in made:
        if array.dtype.hasobject or array.dtype.names:
            raise CoordinationError(f"a batch has an array of {array.dtype}; allowed are numbers")
        layout.append(ArrayLayout(kind=array.dtype.str, shape=list(array.shape), offset=end))
        end += -(-array.nbytes // _ALIGN) * _ALIGN
    if end > room:
        raise CoordinationError(f"a batch has {end:,} bytes, its slot {room:,}: raise batch_bytes")
    for array, place in zip(made, layout, strict=True):
        np.ndarray(array.shape, array.dtype, area, at + place.offset)[...] = array
    return layout


def fetch(area: mmap.mmap, at: int, layout: Sequence[ArrayLayout]) -> list[Array]:
    """Returns copies of the arrays that lie in the staging area from offset `at` on, by their
    layout."""
    return [
        np.ndarray(tuple(each.shape), np.dtype(each.kind), area, at + each.offset).copy()
        for each in layout
    ]
