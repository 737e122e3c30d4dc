"""Reads from the notes of the lanes which files running programs opened, and for which sample."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fanstore._native import lib
from fanstore.arrays import np
from fanstore.process_stat import stat_of
from fanstore.trace.lanes import LaneFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.dataset import Dataset

    Notes = NDArray[np.uint64]
    Reads = NDArray[np.void]


# A file that was opened for a sample. dataset: its number in the notes; sample: its number; visit:
# counts readings of samples, from 0; file: its mount << 32 | its record id, or the number of a
# piece of a large file (pieces.py).
READ = np.dtype([("dataset", "<u4"), ("sample", "<u4"), ("visit", "<i8"), ("file", "<i8")])
_NONE = 0xFFFFFFFF
_KIND_SHIFT, _MOUNT_SHIFT, _FILE_SHIFT = np.uint64(61), np.uint64(56), np.uint64(24)
_MOUNT_MASK, _FILE_MASK, _PLACE_MASK, _PAYLOAD_MASK = (
    np.uint64((1 << bits) - 1) for bits in (4, 32, 36, 24)
)
_SAMPLE, _OPEN = np.uint64(lib.FAN_NOTE_SAMPLE), np.uint64(lib.FAN_NOTE_OPEN)
_PIECE, _READER = np.uint64(lib.FAN_NOTE_PIECE), np.uint64(lib.FAN_NOTE_READER)
_NO_LAP = ~np.uint64(1 << 60)
_MOUNTS_MAX = 16
_UNDER_WAY_MAX = 4096  # the most opens that one sample may have
_READINGS_MAX = 1 << 13  # the last readings of samples, which further threads may join


def samples_of(dataset: int) -> int:
    """Returns the number under which `Opens.take` returns the samples of a dataset that were read:
    in place of a mount, with sample numbers in place of record ids."""
    return _MOUNTS_MAX + dataset


class Tagged:
    """Collects the files that were opened for each sample. Notes come in several pieces."""

    def __init__(self) -> None:
        # lane: its owner, and the notes of its last sample
        self._under_way: dict[int, tuple[int, Notes]] = {}
        self._reads: list[Reads] = []
        self._visits = 0
        # A process and the note of a sample: its last reading, and the lanes that opened files.
        self._readings: dict[tuple[int, int], tuple[int, frozenset[int]]] = {}

    def take(self, lane: int, owner: int, notes: Notes, lost: bool, process: int = 0) -> None:
        """Takes the next notes of a lane. owner: changes when another thread takes the lane. lost:
        whether some notes before these were lost."""
        is_sample = notes >> _KIND_SHIFT == _SAMPLE
        if lane not in self._under_way and not is_sample.any():
            return
        before, begun = self._under_way.pop(lane, (owner, notes[:0]))
        if lost or before != owner:  # notes are missing: that sample may have opened more files
            begun = notes[:0]
        notes = np.append(begun, notes[is_sample | (notes >> _KIND_SHIFT == _OPEN)])
        begins = np.flatnonzero(_begins_batch(notes))
        if not len(begins):
            return
        last = notes[begins[-1] :]
        if last[0] >> _FILE_SHIFT & _FILE_MASK != _FILE_MASK and len(last) <= _UNDER_WAY_MAX:
            self._under_way[lane] = (owner, last)
        self._add(notes[begins[0] : begins[-1]], lane, process)

    def _add(self, notes: Notes, lane: int, process: int) -> None:
        """Adds samples whose notes are complete. The files of a batch are divided among its samples
        in order; if they cannot be divided evenly, nothing is known of them."""
        is_sample = notes >> _KIND_SHIFT == _SAMPLE
        batch = np.cumsum(_begins_batch(notes)) - 1
        samples, opened = notes[is_sample], notes[~is_sample]
        counts = np.bincount(batch[is_sample])
        files = np.bincount(batch[~is_sample], minlength=len(counts))
        of = batch[~is_sample]  # the batch of each file
        place = np.arange(len(opened)) - (np.cumsum(files) - files)[of]
        visit = (np.cumsum(counts) - counts)[of] + place * counts[of] // np.maximum(1, files[of])
        is_even = files[of] % counts[of] == 0
        sample = samples[visit]
        reads = np.empty(len(opened), READ)
        reads["dataset"] = sample & _PAYLOAD_MASK
        reads["sample"] = sample >> _FILE_SHIFT & _FILE_MASK
        reads["visit"] = self._visits_of(process, lane, samples)[visit]
        reads["file"] = opened >> _FILE_SHIFT & _PLACE_MASK
        self._reads.append(reads[is_even & (reads["sample"] != _NONE)])

    def _visits_of(self, process: int, lane: int, samples: Notes) -> NDArray[np.int64]:
        """Returns the number of the reading of each sample. Several threads of a process may open
        files in one reading, and each of them notes it once."""
        visits = np.empty(len(samples), np.int64)
        for at, note in enumerate((samples & _NO_LAP).tolist()):
            visit, lanes = self._readings.pop((process, note), (-1, frozenset()))
            if visit < 0 or lane in lanes:
                visit, lanes = self._visits, frozenset()
                self._visits += 1
            self._readings[process, note] = visit, lanes | {lane}
            visits[at] = visit
        while len(self._readings) > _READINGS_MAX:
            del self._readings[next(iter(self._readings))]
        return visits

    def reads(self) -> Reads:
        """Returns the files opened for samples since the last call, as an array of type READ."""
        reads, self._reads = self._reads, []
        return np.concatenate(reads) if reads else np.empty(0, READ)


def _begins_batch(notes: Notes) -> NDArray[np.bool_]:
    """Returns which notes are of a sample that is read alone, or of the first of a batch."""
    is_sample = notes >> _KIND_SHIFT == _SAMPLE
    begins: NDArray[np.bool_] = is_sample & (notes >> _MOUNT_SHIFT & _MOUNT_MASK == 0)
    return begins


_DEPTH_MAX = 64  # as many parents of a process are followed


class Opens:
    """Takes the new notes of all lanes of a job segment, again and again.

    most: the largest number of new notes in one lane at the last look. A lane holds `lane_notes`;
    if there are more between two looks, the oldest are lost. tagged: collects the files that were
    opened for samples. piece_count: how many pieces of large files were read for samples; each
    counts as an open of the piece.
    """

    def __init__(self, segment: str, datasets: Sequence[Dataset] = ()) -> None:
        """segment: path of the job segment. datasets: that of each mount; if not given, pieces do
        not count. Raises FanstoreError or OSError."""
        self._file = LaneFile(segment)
        self._datasets = datasets
        self._readers: dict[int, int] = {}  # the last reader of a lane that serves others
        self.piece_count = 0
        self._taken = self._file.lanes["first"].copy()
        self.most, self.lane_notes = 0, int(self._file.rings.shape[1])
        self.tagged = Tagged()
        self._parents: dict[int, frozenset[int]] = {}
        self._groups: dict[frozenset[int], int] = {}
        self._space = os.stat("/proc/self/ns/pid").st_ino

    def take(self) -> list[tuple[frozenset[int], dict[int, NDArray[np.uint64]]]]:
        """Returns an entry for each lane with new opens: its process and that process's parents,
        the opened record ids by mount, and the samples that were begun (samples_of). The set of
        processes is empty if they are not known."""
        if not self._file.rings.shape[1]:
            return []
        heads = self._file.lanes["head"].copy()
        found = []
        self.most = int((heads - self._taken).max(initial=0))
        for number in np.flatnonzero(heads != self._taken).tolist():
            notes, lost = self._notes(number, int(heads[number]))
            for reader, part in self._by_reader(number, notes):
                opened = self._opened(reader, part, lost, reader != number)
                if opened:
                    found.append((self._family(reader), opened))
        return found

    def _notes(self, number: int, head: int) -> tuple[Notes, bool]:
        """Takes the notes of a lane before `head`, so that all lanes are read up to the same
        moment. Returns them and whether some before them were lost."""
        notes, lost, end = self._file.notes_of(number, int(self._taken[number]))
        later = max(0, end - head)
        notes = notes[: max(0, len(notes) - later)]
        self._taken[number] = end - later
        return self._with_pieces(notes), lost > 0

    def _by_reader(self, number: int, notes: Notes) -> list[tuple[int, Notes]]:
        """Returns the notes of a lane in parts, each with the lane of the thread that caused them:
        the map server reads for other threads."""
        at = np.flatnonzero(notes >> _KIND_SHIFT == _READER)
        readers = (notes[at] >> _FILE_SHIFT & _FILE_MASK).tolist()
        readers = [self._readers.get(number, number), *readers]
        self._readers[number] = readers[-1]
        parts = zip(readers, np.split(notes, at), strict=True)
        return [(reader, part) for reader, part in parts if reader < len(self._taken)]

    def _opened(
        self, number: int, notes: Notes, lost: bool, is_served: bool
    ) -> dict[int, NDArray[np.uint64]]:
        """Handles notes that the thread of a lane has caused. is_served: they are of another
        lane."""
        lane = self._file.lanes[number]
        if lane["state"] == lib.FAN_LANE_LIVE:  # a thread owns the lane
            owner, process = int(lane["first"]), int(lane["pid"])
            of = number + len(self._taken) if is_served else number
            self.tagged.take(of, owner, notes, lost, process)
        begun = {} if is_served else _begun(notes)
        notes = notes[notes >> _KIND_SHIFT == _OPEN]
        mounts = notes >> _MOUNT_SHIFT & _MOUNT_MASK
        files = notes >> _FILE_SHIFT & _FILE_MASK
        return begun | {mount: files[mounts == mount] for mount in np.unique(mounts).tolist()}

    def _with_pieces(self, notes: Notes) -> Notes:
        """Returns the notes with those of pieces as opens of the pieces."""
        is_piece = notes >> _KIND_SHIFT == _PIECE
        if not is_piece.any() or not self._datasets:
            return notes
        mounts = notes >> _MOUNT_SHIFT & _MOUNT_MASK
        notes = notes.copy()
        for mount in np.unique(mounts[is_piece]).tolist():
            which = np.flatnonzero(is_piece & (mounts == mount))
            pieces, found = self._datasets[mount].pieces, notes[which]
            numbers = pieces.numbers(found >> _FILE_SHIFT & _FILE_MASK, found & _PAYLOAD_MASK)
            opens = _OPEN << _KIND_SHIFT | np.uint64(mount) << _MOUNT_SHIFT | numbers << _FILE_SHIFT
            notes[which] = np.where(numbers < pieces.end, opens, np.uint64(0))
            self.piece_count += int((numbers < pieces.end).sum())
        return notes

    def _family(self, number: int) -> frozenset[int]:
        """Returns the process of a lane, with its parents; empty if they cannot be seen from
        here."""
        lane: Any = self._file.lanes[number]
        if int(lane["pid_space"]) != self._space or not int(lane["pid"]):
            return frozenset()
        pid = int(lane["pid"])
        if pid not in self._parents:
            self._parents[pid], group = with_parents(pid)
            self._groups[self._parents[pid]] = group
        return self._parents[pid]

    def group_of(self, family: frozenset[int]) -> int:
        """Returns the process group of a process, given as the set of the process and its parents;
        0 if unknown."""
        return self._groups.get(family, 0) if family else 0


def _begun(notes: Notes) -> dict[int, NDArray[np.uint64]]:
    """Returns the samples that notes name, by samples_of their dataset."""
    numbers = notes >> _FILE_SHIFT & _FILE_MASK
    is_sample = (notes >> _KIND_SHIFT == _SAMPLE) & (numbers != _NONE)
    samples, datasets = numbers[is_sample], notes[is_sample] & _PAYLOAD_MASK
    return {
        samples_of(dataset): samples[datasets == dataset]
        for dataset in np.unique(datasets).tolist()
    }


def with_parents(pid: int) -> tuple[frozenset[int], int]:
    """Returns a process with its parents, and its process group; an empty set and 0 if it has
    ended."""
    found, own_group = {pid}, 0
    for _ in range(_DEPTH_MAX):
        try:
            said = stat_of(pid)
        except OSError:
            said = None
        # A negative group: the process is ending, and its parent is no longer shown.
        if said is None or said.group < 0:
            return frozenset() if len(found) == 1 else frozenset(found), own_group
        pid, own_group = said.parent, own_group or said.group
        if pid <= 1:
            break
        found.add(pid)
    return frozenset(found), own_group
