"""Which files the samples of a dataset are, learnt from what was opened while they were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.dataset import NO_RECORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]

SAMPLES_MAX = 1 << 27  # of a dataset
_FILES_MAX = 64  # of a sample, in one mount
_MOUNT_SHIFT, _RECORD_MASK = 32, 0xFFFFFFFF


class SampleFiles:
    """The files of the samples that were read: those that were opened each time that any was. (A
    sample that the job keeps in its own memory is read again without.)"""

    def __init__(self) -> None:
        # Pairs of a sample and a file, sorted; a file is its mount << 32 | its record id.
        self._pairs: NDArray[np.int64] = np.empty((0, 2), np.int64)

    def __len__(self) -> int:
        """Returns how many pairs of a sample and a file are known."""
        return len(self._pairs)

    def add(self, samples: Ids, visits: Ids, files: Ids) -> None:
        """Adds files that were opened for samples. visits: which reading of a sample each was for;
        files: mount << 32 | record id. All are int64."""
        opens = np.column_stack([samples, files, visits])[samples < SAMPLES_MAX]
        before = np.column_stack([self._pairs, np.full(len(self._pairs), -1)])  # one more reading
        opens = np.unique(np.concatenate([before, opens]), axis=0)
        read, readings = np.unique(np.unique(opens[:, ::2], axis=0)[:, 0], return_counts=True)
        pairs, times = np.unique(opens[:, :2], axis=0, return_counts=True)
        self._pairs = pairs[times == readings[np.searchsorted(read, pairs[:, 0])]]

    def by_mount(self, count: int) -> list[tuple[int, NDArray[np.uint64]]]:
        """Returns by mount the record ids of `count` samples, one row each, with NO_RECORD where a
        sample has fewer than others, or is not known."""
        pairs = self._pairs[self._pairs[:, 0] < count]
        mounts = pairs[:, 1] >> _MOUNT_SHIFT
        return [
            (int(mount), _rows(pairs[mounts == mount], count)) for mount in np.unique(mounts)
        ]  # fmt: skip

    def take(self, mount: int, rows: NDArray[np.uint64]) -> None:
        """Adds what an earlier job knew, as `by_mount` returned it."""
        samples, places = np.nonzero(rows != NO_RECORD)
        files = rows[samples, places].astype(np.int64) | mount << _MOUNT_SHIFT
        self.add(samples, np.full(len(samples), -2), files)


def _rows(pairs: NDArray[np.int64], count: int) -> NDArray[np.uint64]:
    """Returns the record ids of pairs that are sorted by their samples."""
    _, first, lengths = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    place = np.arange(len(pairs)) - np.repeat(first, lengths)
    pairs, place = pairs[place < _FILES_MAX], place[place < _FILES_MAX]
    rows = np.full((count, int(place.max(initial=0)) + 1), NO_RECORD, np.uint64)
    rows[pairs[:, 0], place] = (pairs[:, 1] & _RECORD_MASK).astype(np.uint64)
    return rows
