"""Times during which something went on: their union, and how much of it falls between two times."""

from __future__ import annotations

from typing import Any

from fanstore.arrays import np

Array = Any


def lone_begins(begins: Array, ends: Array, groups: Array) -> Array:
    """Returns for each interval where it begins to be the only one of its group: what earlier ones
    of the group cover is taken off, so that lengths up to `ends` add up to the length of the union.
    Integers; an interval that is covered wholly begins at its end."""
    if len(begins) == 0:
        return begins.copy()
    order = np.lexsort((begins, groups))
    sorted_groups = groups[order]
    firsts = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]])
    lone = begins[order].copy()
    for first, last in zip(firsts, [*firsts[1:], len(order)], strict=True):
        covered = np.maximum.accumulate(ends[order[first:last]])
        lone[first + 1 : last] = np.maximum(lone[first + 1 : last], covered[:-1])
    found = np.empty_like(begins)
    found[order] = np.minimum(lone, ends[order])
    return found


def covered_before(begins: Array, ends: Array, edges: Array) -> Array:
    """Returns for each edge how much of all intervals lies before it, intervals that overlap each
    for itself."""
    return _since(begins, edges) - _since(ends, edges)


def _since(times: Array, edges: Array) -> Array:
    """Returns for each edge the sum of edge - time over all times before it."""
    zero = edges[0] if len(edges) else 0
    ordered = np.sort(times).astype(np.float64) - float(zero)
    sums = np.r_[0.0, np.cumsum(ordered)]
    places = np.searchsorted(ordered, edges - float(zero))
    return places * (edges - float(zero)) - sums[places]
