"""Finds where the epochs of a rank begin: a trace does not record it, but files come again.

The rule: an epoch of a rank ends where the rank begins to open files again that it has opened in
that epoch. Left out are files that are opened more than twice as often as most, such as lists of
labels, and opens soon after one of the same file. Some files may come again early, because workers
of a loader run ahead of one another. So after the first epoch, the rule looks for a change in the
share of opens that are repeats (CUSUM: Page 1954): from almost none to half of the share that
followed the first epoch.
"""

from __future__ import annotations

from typing import Any

from fanstore.arrays import np

Array = Any


def lone_begins(begins: Array, ends: Array, groups: Array) -> Array:
    """Cuts off the part of each interval that earlier intervals of its group cover, so that the
    remaining lengths add up to the length of their union. Returns the remaining intervals' begins,
    as integers; an interval that is wholly covered begins at its end."""
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
    """Returns for each edge the total length of all intervals before it. Overlapping intervals
    count separately."""
    return _since(begins, edges) - _since(ends, edges)


def _since(times: Array, edges: Array) -> Array:
    """Returns for each edge the sum of edge - time over all times before it."""
    zero = edges[0] if len(edges) else 0
    ordered = np.sort(times).astype(np.float64) - float(zero)
    sums = np.r_[0.0, np.cumsum(ordered)]
    places = np.searchsorted(ordered, edges - float(zero))
    return places * (edges - float(zero)) - sums[places]


_FIRST_PART = 300  # in a first epoch, at most one in so many opens is a repeat
_SOON_PART = 20  # a part of all files: an open so soon after one of the same file does not count
_SURE, _SURE_PART = 5.0, 100  # surplus repeats that prove a change
_WINDOW = 1024
EPOCHS_MAX = 10_000


def epoch_starts(files: Any) -> list[int]:
    """Returns the index of the first open of each epoch of a rank; the first one is 0. files: the
    number of the file of each open, in order. Without opens there is no epoch."""
    if len(files) == 0:
        return []
    order = np.argsort(files, kind="stable")  # brings the opens of one file together
    places = np.flatnonzero(_counting(files, order))
    before = _places_before(files, order, places)
    starts, second, density = [0], *_end_of_first(before)
    while second and len(starts) < EPOCHS_MAX:
        starts.append(second)
        second = _next_start(before, starts[-1], starts[-1] - starts[-2], density)
    return [0, *(int(places[start]) for start in starts[1:])]


def _counting(files: Any, order: Any) -> Any:
    """Returns for each open whether it counts: its file is opened about as often as most files, and
    was not opened just before."""
    again = np.r_[False, files[order][1:] == files[order][:-1]]
    file_of = np.cumsum(~again) - 1
    counts = np.bincount(file_of)
    soon = np.r_[False, np.diff(order) * _SOON_PART < len(counts)] & again
    found = np.empty(len(files), bool)
    found[order] = (counts <= 2 * np.median(counts))[file_of] & ~soon
    return found


def _places_before(files: Any, order: Any, places: Any) -> Any:
    """Returns, for each open that counts, the index of the previous open of its file, or -1.
    places: the indices of the opens that count."""
    place_of = np.full(len(files), -1)
    place_of[places] = np.arange(len(places))
    kept = order[place_of[order] >= 0]
    same = files[kept][1:] == files[kept][:-1]
    before = np.full(len(places), -1)
    before[place_of[kept[1:][same]]] = place_of[kept[:-1][same]]
    return before


def _end_of_first(before: Any) -> tuple[int, float]:
    """Returns the index at which the first epoch ends, 0 if it is the only one; and the share of
    repeats among the opens after it."""
    repeats = np.flatnonzero(before >= 0)
    enough = np.flatnonzero(np.arange(1, len(repeats) + 1) * _FIRST_PART >= repeats)
    if len(enough) == 0:
        return 0, 0.0
    first = _change(repeats[: enough[0] + 1])
    after = before[first : 2 * first]
    return first, float((after >= 0).mean())


def _change(repeats: Any) -> int:
    """Returns the index of the repeat from which on repeats are dense."""
    middle = len(repeats) // 2
    density = (len(repeats) - middle) / (repeats[-1] - repeats[middle] + 1)
    left = np.arange(len(repeats), 0, -1)
    gain = left - density / 2 * (repeats[-1] - repeats + 1)
    return int(repeats[np.argmax(gain)])


def _next_start(before: Any, start: int, last: int, density: float) -> int:
    """Returns the index at which the epoch that begins at `start` ends, 0 if it is the last one.
    last: the number of opens of the epoch before; density: the share of repeats after a change."""
    sure = max(density / 2, min(_SURE, last / _SURE_PART))
    window = max(_WINDOW, 2 * last)
    while True:
        drift = np.cumsum((before[start : start + window] >= start) - density / 2)
        lowest = np.minimum.accumulate(np.minimum(drift, 0))
        found = np.flatnonzero(drift - lowest >= sure)
        if len(found):
            return start + 1 + int(np.flatnonzero(drift[: found[0]] == lowest[found[0]])[-1])
        if start + window >= len(before):
            return 0
        window *= 2
