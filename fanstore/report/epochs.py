"""Where the epochs of a rank begin: nothing in a trace says so, but files come again.

The rule: an epoch of a rank ends where it begins to open files again that it has opened in that
epoch. Files that are opened more than twice as often as most are left out, such as lists of labels,
and so are opens soon after one of the same file. Some files may come again early, for workers of a
loader run ahead of one another: after the first epoch, a change is looked for in how many of the
opens are repeats (CUSUM: Page 1954), from next to none to half of what followed the first epoch."""

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


_FIRST_PART = 300  # of the opens of a first epoch may be repeats, one in so many
_SOON_PART = 20  # of all files
_SURE, _SURE_PART = 5.0, 100  # repeats more than there would be without a change
_WINDOW = 1024
EPOCHS_MAX = 10_000


def epoch_starts(files: Any) -> list[int]:
    """Returns the places in a rank's opens at which its epochs begin, the first of them 0. files:
    what was opened, one number for each file, in the order of the opens; none: no epoch."""
    if len(files) == 0:
        return []
    order = np.argsort(files, kind="stable")  # the opens of one file side by side
    places = np.flatnonzero(_counting(files, order))
    before = _places_before(files, order, places)
    starts, second, density = [0], *_end_of_first(before)
    while second and len(starts) < EPOCHS_MAX:
        starts.append(second)
        second = _next_start(before, starts[-1], starts[-1] - starts[-2], density)
    return [0, *(int(places[start]) for start in starts[1:])]


def _counting(files: Any, order: Any) -> Any:
    """Tells for each open whether it counts: its file is opened about as often as most, and was not
    opened just before."""
    again = np.r_[False, files[order][1:] == files[order][:-1]]
    file_of = np.cumsum(~again) - 1
    counts = np.bincount(file_of)
    soon = np.r_[False, np.diff(order) * _SOON_PART < len(counts)] & again
    found = np.empty(len(files), bool)
    found[order] = (counts <= 2 * np.median(counts))[file_of] & ~soon
    return found


def _places_before(files: Any, order: Any, places: Any) -> Any:
    """Returns for each open that counts the place at which its file was opened before, or -1;
    places: where those opens are among all."""
    place_of = np.full(len(files), -1)
    place_of[places] = np.arange(len(places))
    kept = order[place_of[order] >= 0]
    same = files[kept][1:] == files[kept][:-1]
    before = np.full(len(places), -1)
    before[place_of[kept[1:][same]]] = place_of[kept[:-1][same]]
    return before


def _end_of_first(before: Any) -> tuple[int, float]:
    """Returns where the first epoch ends, 0 where it is the last one, too; and which part of the
    opens from there on are repeats."""
    repeats = np.flatnonzero(before >= 0)
    enough = np.flatnonzero(np.arange(1, len(repeats) + 1) * _FIRST_PART >= repeats)
    if len(enough) == 0:
        return 0, 0.0
    first = _change(repeats[: enough[0] + 1])
    after = before[first : 2 * first]
    return first, float((after >= 0).mean())


def _change(repeats: Any) -> int:
    """Returns the repeat from which on they are dense."""
    middle = len(repeats) // 2
    density = (len(repeats) - middle) / (repeats[-1] - repeats[middle] + 1)
    left = np.arange(len(repeats), 0, -1)
    gain = left - density / 2 * (repeats[-1] - repeats + 1)
    return int(repeats[np.argmax(gain)])


def _next_start(before: Any, start: int, last: int, density: float) -> int:
    """Returns where the epoch ends that begins at `start`, or 0 where that is the last one. last:
    how many opens the one before had; density: of repeats, after a change."""
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
