"""The files of each sample of a dataset: learnt while samples are read, shared with the other
ranks, and stored for later jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

import xxhash

from fanstore.arrays import np
from fanstore.dataset import NO_RECORD
from fanstore.foresight.announcement import Name
from fanstore.foresight.between import has_pieces, with_guesses
from fanstore.foresight.ranges import SAMPLES_MAX, pieces_of
from fanstore.node.opens import READ

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ids = NDArray[np.int64]
    Rows = NDArray[np.uint64]

    from fanstore.dataset import Dataset
    from fanstore.foresight.kept import KeptFiles
    from fanstore.foresight.ranges import Buffer
    from fanstore.node.opens import Reads


# The most files of a sample in one mount, and the most entries of rows if there are so many.
_FILES_MAX, _FILES_LEAST, _ENTRIES_MAX = 1024, 64, 1 << 24
# Limits of rows, most of which are empty if samples are far apart.
_ROWS_MIN, _ROWS_PER_PAIR = 1 << 16, 64
_MOUNT_SHIFT, _RECORD_MASK = 32, 0xFFFFFFFF
_SAMPLE_SHIFT, _FILE_MASK, _MOUNTS_MAX = 36, (1 << 36) - 1, 16


class SampleFiles:
    """The files of each sample that was read. A file belongs to a sample if every reading of the
    sample that opened any files opened this one. (A job that has a sample in its own memory opens
    none.) A piece of a file belongs to it if any reading read it: of a mapping, the kernel may
    still have others. firsts: for each mount, the first number of a piece."""

    def __init__(self, firsts: Sequence[int] = ()) -> None:
        self._firsts = np.full(_MOUNTS_MAX, 1 << _MOUNT_SHIFT)
        self._firsts[: len(firsts)] = firsts
        # Sorted pairs of a sample and a file; a file is (mount << 32 | record id).
        self._pairs: NDArray[np.int64] = np.empty((0, 2), np.int64)

    def __len__(self) -> int:
        """Returns how many pairs of a sample and a file are known."""
        return len(self._pairs)

    def keys(self) -> NDArray[np.int64]:
        """Returns the known pairs as one sorted number each: sample << 36 | file."""
        keys: NDArray[np.int64] = self._pairs[:, 0] << _SAMPLE_SHIFT | self._pairs[:, 1]
        return keys

    def samples(self) -> Ids:
        """Returns the samples of which files are known."""
        return _distinct(self._pairs[:, 0])

    def fill_up(self, keys: NDArray[np.int64]) -> SampleFiles:
        """Returns these files together with those in `keys`, for samples of which none is known
        here."""
        if not len(keys):
            return self
        both = SampleFiles(self._firsts.tolist())
        others = keys[~np.isin(keys >> _SAMPLE_SHIFT, self._pairs[:, 0])]
        whole = np.sort(np.concatenate([self.keys(), others]), kind="stable")
        both._pairs = np.column_stack([whole >> _SAMPLE_SHIFT, whole & _FILE_MASK])
        return both

    def add(self, samples: Ids, visits: Ids, files: Ids) -> None:
        """Adds files that were opened for samples. visits: the number of the reading in which each
        file was opened; files: mount << 32 | record id. All are int64."""
        opens = np.column_stack([samples, files, visits])[samples < SAMPLES_MAX]
        # The known pairs count as one more reading.
        before = np.column_stack([self._pairs, np.full(len(self._pairs), -1)])
        opens = np.unique(np.concatenate([before, opens]), axis=0)
        read, readings = np.unique(np.unique(opens[:, ::2], axis=0)[:, 0], return_counts=True)
        pairs, times = np.unique(opens[:, :2], axis=0, return_counts=True)
        is_piece = pairs[:, 1] & _RECORD_MASK >= self._firsts[pairs[:, 1] >> _MOUNT_SHIFT]
        self._pairs = pairs[is_piece | (times == readings[np.searchsorted(read, pairs[:, 0])])]

    def by_mount(self, least: int = _FILES_LEAST) -> list[tuple[int, NDArray[np.uint64]]]:
        """Returns, by mount, the record ids of the samples up to the last one that is known, one
        row for each, with NO_RECORD if a sample has fewer files than others, or is unknown. least:
        so many files of a sample are in rows, however many samples there are."""
        count = _ROWS_MIN + _ROWS_PER_PAIR * len(self._pairs)
        pairs = self._pairs[self._pairs[:, 0] < count]
        mounts = pairs[:, 1] >> _MOUNT_SHIFT
        return [(int(mount), _rows(pairs[mounts == mount], least)) for mount in _distinct(mounts)]

    def take(self, mount: int, rows: NDArray[np.uint64]) -> None:
        """Adds the files that an earlier job learnt, in the form that `by_mount` returns."""
        samples, places = np.nonzero(rows != NO_RECORD)
        files = rows[samples, places].astype(np.int64) | mount << _MOUNT_SHIFT
        self.add(samples, np.full(len(samples), -2), files)


def _distinct(numbers: Ids) -> Ids:
    """Returns the distinct ones of some numbers from 0 on, sorted. np.unique takes ten times as
    long for millions of them: since NumPy 2.3 it puts them into a hash table."""
    numbers = np.sort(numbers, kind="stable")  # fast where they come in order
    return numbers[np.diff(numbers, prepend=-1) > 0]


def _rows(pairs: NDArray[np.int64], least: int) -> NDArray[np.uint64]:
    """Returns the record ids of sorted pairs, one row for each sample."""
    count = int(pairs[-1, 0]) + 1
    _, first, lengths = np.unique(pairs[:, 0], return_index=True, return_counts=True)
    place = np.arange(len(pairs)) - np.repeat(first, lengths)
    most = max(least, min(_FILES_MAX, _ENTRIES_MAX // count))
    pairs, place = pairs[place < most], place[place < most]
    rows = np.full((count, int(place.max(initial=0)) + 1), NO_RECORD, np.uint64)
    rows[pairs[:, 0], place] = (pairs[:, 1] & _RECORD_MASK).astype(np.uint64)
    return rows


_DATASETS_MAX = 64  # the most of a job
_READS_MIN = 1 << 16  # sorts at least so many reads at once
_NO_RECORD_WORD = 0xFFFFFFFF
_WORDS_MAX = (1 << 24) - 64  # the most words of 4 bytes in a file

Told = tuple[Name, bytes]  # a dataset, and the SampleFiles.keys of some of its samples


class Learnt:
    """The sample files of a job's datasets. packed: the packed dataset of each mount. kept: the
    stored files of each mount; if there are none, nothing is stored. heard: what other ranks have
    told, to which another thread adds, and from which this takes; None if nobody is told anything.
    What this rank has read itself counts more: a dataset may be another one there in spite of its
    name."""

    def __init__(
        self,
        packed: Sequence[Dataset] = (),
        kept: Sequence[KeptFiles] = (),
        heard: deque[Told] | None = None,
    ) -> None:
        self._packed = packed
        self._firsts = [int(each.header.record_count) for each in packed]
        self._kept = kept
        self._found: dict[int, SampleFiles] = {}
        self._names: dict[int, Name] = {}
        self._loaded: dict[tuple[int, int], Rows] = {}
        self._guesses: dict[Name, bool] = {}
        self.noted = 0  # how many files of samples were noted
        self._reads: list[Reads] = []  # not sorted yet
        self._untold: list[Reads] = []  # not told to other ranks yet
        self._heard = heard
        # The keys of samples that other ranks have read, by dataset.
        self._theirs: dict[Name, NDArray[np.int64]] = {}

    def note(self, reads: Reads) -> None:
        """Adds the files that were opened while samples were read."""
        self.noted += len(reads)
        if len(reads):
            self._reads.append(reads)
            self._untold += [reads] if self._heard is not None else []
        # Rarely sorts, so that sorting all reads again costs little per read.
        if sum(map(len, self._reads)) > max(_READS_MIN, *map(len, self._found.values()), 0):
            self._sort()

    def _sort(self) -> None:
        reads, self._reads = _together(self._reads), []
        for dataset, found in self._found.items():
            _add(found, reads, dataset)

    def _of_others(self, name: Name) -> NDArray[np.int64]:
        """Returns the keys that other ranks have told of a dataset. Of each sample the first
        counts."""
        told: dict[Name, list[NDArray[np.int64]]] = {}
        while self._heard:
            other, keys = self._heard.popleft()
            told.setdefault(other, []).append(np.frombuffer(keys, np.int64))
        for other, parts in told.items():
            known = self._theirs.setdefault(other, np.empty(0, np.int64))
            new = _distinct(np.concatenate(parts))
            new = new[~np.isin(new >> _SAMPLE_SHIFT, known >> _SAMPLE_SHIFT)]
            self._theirs[other] = np.concatenate([known, new])
        return self._theirs.get(name, np.empty(0, np.int64))

    def tell(self) -> list[Told]:
        """Returns the files learnt since the last call, for other ranks."""
        reads, self._untold = _together(self._untold), []
        told = []
        for number, name in self._names.items():
            found = SampleFiles(self._firsts)
            _add(found, reads, number)
            told += [(name, found.keys().tobytes())] if len(found) else []
        return told

    def files(self, name: Name) -> list[tuple[int, Rows]]:
        """Returns the known files of a dataset, by mount; none until some samples were read."""
        if name.number not in self._found:
            if len(self._found) >= _DATASETS_MAX:
                return []
            self._found[name.number] = SampleFiles(self._firsts)
            self._names[name.number] = name
            for mount in range(len(self._kept)):
                self._load(mount, name)
        if self._names[name.number] != name:  # two datasets have the same number
            return []
        self._sort()
        whole = self._found[name.number].fill_up(self._of_others(name))
        known = whole.by_mount()
        if not self._packed:
            return known
        files = [(mount, with_guesses(rows, self._firsts[mount])) for mount, rows in known]
        guessed = [new is not old for (_, new), (_, old) in zip(files, known, strict=True)]
        self._guesses[name] = any(guessed)
        return files

    def files_of_ranges(
        self,
        files: Sequence[tuple[int, NDArray[np.uint64]]],
        ranges: Buffer,
        around_bytes: int = 0,
    ) -> list[tuple[int, Rows]]:
        """Returns the pieces of samples, by mount, in the form that `files` returns. files: the
        record id of each file, by mount; ranges, around_bytes: as in ranges.py. Raises
        ValueError."""
        keys = [np.empty(0, np.int64)]
        for mount, ids in files:
            rows, numbers = pieces_of(ranges, ids, self._packed[mount].pieces, around_bytes)
            keys.append(rows << _SAMPLE_SHIFT | mount << _MOUNT_SHIFT | numbers.astype(np.int64))
        return SampleFiles(self._firsts).fill_up(_distinct(np.concatenate(keys))).by_mount(1)

    def has_pieces(self, mount: int, rows: Rows) -> bool:
        """Returns whether some of the files of samples are pieces of files."""
        return bool(self._firsts) and has_pieces(rows, self._firsts[mount])

    def has_guesses(self, name: Name) -> bool:
        """Returns whether some of the files that `files` returned last are guesses."""
        return self._guesses.get(name, False)

    def samples_read(self, name: Name) -> NDArray[np.int64]:
        """Returns the samples of a dataset that this rank has read."""
        return self._found[name.number].samples()

    def _load(self, mount: int, name: Name) -> None:
        """Adds the stored files of a dataset, because other ranks may have learnt more."""
        for content in self._kept[mount].read(_file_name(name)):
            rows = _decoded(content, self._packed[mount].pieces.end)
            if rows is not None:
                self._loaded[name.number, mount] = rows
                self._found[name.number].take(mount, rows)

    def end(self) -> None:
        """Stores the learnt files for later jobs."""
        self._sort()
        for number, name in self._names.items():
            for mount in range(len(self._kept)):
                self._load(mount, name)
            for mount, rows in self._found[number].by_mount():
                known = self._loaded.get((number, mount))
                fits = mount < len(self._kept) and rows.size <= _WORDS_MAX
                if fits and not _is_same(rows, known):
                    self._kept[mount].write(_file_name(name), _encoded(rows))


def _together(reads: Sequence[Reads]) -> Reads:
    return np.concatenate([np.empty(0, READ), *reads])


def _add(found: SampleFiles, reads: Reads, dataset: int) -> None:
    """Adds the files that were opened for the samples of a dataset."""
    some = reads[reads["dataset"] == dataset]
    found.add(some["sample"].astype(np.int64), some["visit"], some["file"])


def _is_same(rows: Rows, known: Rows | None) -> bool:
    return known is not None and rows.shape == known.shape and bool((rows == known).all())


def _file_name(name: Name) -> str:
    text = name.text.encode("utf-8", "surrogatepass")
    return f"samples-{xxhash.xxh3_64_hexdigest(text)}"


def _encoded(rows: Rows) -> bytes:
    """Returns the content of a file: the number of samples, the number of columns, and the rows, as
    words of 4 bytes."""
    words = np.where(rows == NO_RECORD, np.uint64(_NO_RECORD_WORD), rows)
    return np.append(np.array(rows.shape, np.uint64), words.ravel()).astype("<u4").tobytes()


def _decoded(content: bytes, records: int) -> Rows | None:
    """Returns the rows in a stored file after checking them; None if they do not fit the dataset,
    in which so many records and pieces have numbers."""
    if len(content) % 4 or len(content) < 8:
        return None
    words = np.frombuffer(content, "<u4").astype(np.uint64)
    shape = (int(words[0]), int(words[1]))
    rows = words[2:]
    if shape[0] > SAMPLES_MAX or shape[0] * shape[1] != len(rows):
        return None
    rows[rows == _NO_RECORD_WORD] = NO_RECORD
    return None if (rows[rows != NO_RECORD] >= records).any() else rows.reshape(shape)
