"""Which files were opened while a sample was read: the notes of samples among those of opens say so
(FAN_NOTE_SAMPLE)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore._native import lib
from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Notes = NDArray[np.uint64]
    Reads = NDArray[np.void]  # of READ

# A file that was opened for a sample. dataset: its number in the notes; sample: which; visit: which
# reading of a sample, from 0; file: its mount << 32 | its record id.
READ = np.dtype([("dataset", "<u4"), ("sample", "<u4"), ("visit", "<i8"), ("file", "<i8")])
_NONE = 0xFFFFFFFF
_KIND_SHIFT, _FILE_SHIFT = np.uint64(61), np.uint64(24)
_FILE_MASK, _PLACE_MASK, _PAYLOAD_MASK = (np.uint64((1 << bits) - 1) for bits in (32, 36, 24))
_SAMPLE, _OPEN = np.uint64(lib.FAN_NOTE_SAMPLE), np.uint64(lib.FAN_NOTE_OPEN)
_UNDER_WAY_MAX = 4096  # opens of one sample


class Tagged:
    """Takes the notes of lanes, in pieces."""

    def __init__(self) -> None:
        self._under_way: dict[int, tuple[int, Notes]] = {}  # by lane: owner, last sample
        self._reads: list[Reads] = []
        self._visits = 0

    def take(self, lane: int, owner: int, notes: Notes, lost: bool) -> None:
        """Takes the next notes of a lane. owner: differs where another thread has the lane. lost:
        whether some before them were."""
        is_sample = notes >> _KIND_SHIFT == _SAMPLE
        if lane not in self._under_way and not is_sample.any():
            return
        before, begun = self._under_way.pop(lane, (owner, notes[:0]))
        if lost or before != owner:  # nobody knows what else was opened for it
            begun = notes[:0]
        notes = np.append(begun, notes[is_sample | (notes >> _KIND_SHIFT == _OPEN)])
        begins = np.flatnonzero(notes >> _KIND_SHIFT == _SAMPLE)
        if not len(begins):
            return
        last = notes[begins[-1] :]
        if last[0] >> _FILE_SHIFT & _FILE_MASK != _FILE_MASK and len(last) <= _UNDER_WAY_MAX:
            self._under_way[lane] = (owner, last)
        self._add(notes[begins[0] : begins[-1]])

    def _add(self, notes: Notes) -> None:
        """Adds samples that were read to their end."""
        is_sample = notes >> _KIND_SHIFT == _SAMPLE
        visit = (np.cumsum(is_sample) - 1)[~is_sample]
        sample, opened = notes[is_sample][visit], notes[~is_sample]
        reads = np.empty(len(opened), READ)
        reads["dataset"] = sample & _PAYLOAD_MASK
        reads["sample"] = sample >> _FILE_SHIFT & _FILE_MASK
        reads["visit"] = self._visits + visit
        reads["file"] = opened >> _FILE_SHIFT & _PLACE_MASK
        self._visits += int(is_sample.sum())
        self._reads.append(reads[reads["sample"] != _NONE])

    def reads(self) -> Reads:
        """Returns what was read since the last call, an array of READ."""
        reads, self._reads = self._reads, []
        return np.concatenate(reads) if reads else np.empty(0, READ)
