"""Where the epochs of a rank begin: nothing in a trace says so, but files come again.

The rule: an epoch of a rank ends where it begins to open files again that it has opened in that
epoch. Files that are opened more than twice as often as most are left out, such as lists of labels.
Some files may come again early, up to one open in 300 and one in a hundred of the epoch before:
workers of a loader run ahead of one another.
"""

from __future__ import annotations

from typing import Any

from fanstore.arrays import np

_PART = 300
_PART_OF_LAST = 100
_WINDOW = 1024
EPOCHS_MAX = 10_000


def epoch_starts(files: Any) -> list[int]:
    """Returns the places in a rank's opens at which its epochs begin, the first of them 0. files:
    what was opened, one number for each file, in the order of the opens; none: no epoch."""
    if len(files) == 0:
        return []
    usual = _usual(files)
    places = np.flatnonzero(usual)
    before = _places_before(files[places])
    starts, least = [0], 1
    while len(starts) < EPOCHS_MAX and (found := _next_start(before, starts[-1], least)):
        least = max(1, (found - starts[-1]) // _PART_OF_LAST)
        starts.append(found)
    return [0, *(int(places[start]) for start in starts[1:])]


def _usual(files: Any) -> Any:
    """Tells for each open whether its file is opened about as often as most."""
    _, which, counts = np.unique(files, return_inverse=True, return_counts=True)
    return counts[which] <= 2 * np.median(counts)


def _places_before(files: Any) -> Any:
    """Returns for each open the place at which its file was opened before, or -1."""
    order = np.argsort(files, kind="stable")
    before = np.full(len(files), -1)
    same = files[order][1:] == files[order][:-1]
    before[order[1:][same]] = order[:-1][same]
    return before


def _next_start(before: Any, start: int, least: int) -> int:
    """Returns where the epoch ends that begins at `start`, or 0 where that is the last one. least:
    how many repeats there must be."""
    window = _WINDOW
    while True:
        repeats = start + np.flatnonzero(before[start : start + window] >= start)
        counts = np.arange(1, len(repeats) + 1)
        enough = np.flatnonzero((counts * _PART >= repeats - start) & (counts >= least))
        if len(enough):
            return _change(repeats[: enough[0] + 1])
        if start + window >= len(before):
            return 0
        window *= 2


def _change(repeats: Any) -> int:
    """Returns the repeat from which on they are dense: those before it are stragglers."""
    middle = len(repeats) // 2
    density = (len(repeats) - middle) / (repeats[-1] - repeats[middle] + 1)
    left = np.arange(len(repeats), 0, -1)
    gain = left - density / 2 * (repeats[-1] - repeats + 1)
    return int(repeats[np.argmax(gain)])
