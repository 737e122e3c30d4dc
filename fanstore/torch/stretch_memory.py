"""Memory for the opportunistic order: large reads fill it with stretches, and a sample leaves it
when it is read."""

from __future__ import annotations

import mmap
import operator
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn

from fanstore.arrays import np
from fanstore.dataset import are_files, open_dataset
from fanstore.decoding import ContentDamaged, PackReader
from fanstore.errors import DatasetDamaged

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NORESERVE = 0x4000  # mmap(2): reserves no memory, because not all of the room is used
_GAP_BYTES = 1 << 20  # two samples are read together if the gap between them is at most this


class StretchMemory:
    """The content of samples of a packed dataset, in memory from the time their stretch is read
    until the samples are; for this process and the workers that it forks.

    path: the dataset's directory. names: the relative path of each sample's file, in the order of
    the samples. `memory[i]` returns the content of sample i as bytes, with its checksum compared,
    and frees its room. A sample that is not in memory, such as one that is read a second time, is
    read from its pack by itself. Each sample takes its uncompressed size, rounded up to a page.

    stretch_reads, stretch_bytes: how many reads brought stretches, and their bytes. single_reads:
    samples that this process read by themselves. Raises FanstoreError if there is no dataset,
    DatasetDamaged, FileNotFoundError for a name that is not in it, and IsADirectoryError for one
    that is no regular file; after close, ValueError.
    """

    def __init__(
        self, path: str | os.PathLike[str], names: Sequence[str | bytes | os.PathLike[str]]
    ) -> None:
        self._dataset = open_dataset(path)
        self._ids = np.array([self._dataset.lookup(os.fsencode(name)) for name in names], np.int64)
        self._rows = self._dataset.records[self._ids]
        no_file = np.flatnonzero(~are_files(self._rows))
        if len(no_file):
            raise IsADirectoryError(f"{os.fsdecode(names[no_file[0]])}: no regular file")
        sizes = self._rows["logical_size"].astype(np.int64)
        room = -(-sizes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._starts = np.concatenate(([0], np.cumsum(room)))
        flags = mmap.MAP_SHARED | _NORESERVE
        self._contents = mmap.mmap(-1, max(1, int(self._starts[-1])), flags)
        # For each sample, the number of the fill that read it; 0: not in memory.
        self._fills = mmap.mmap(-1, max(1, len(sizes)))
        self._fill = 1
        self.stretch_reads = self.stretch_bytes = self.single_reads = 0

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> bytes:
        """Returns the content of a sample. Raises IndexError, DatasetDamaged, and OSError if its
        pack cannot be read."""
        number = range(len(self))[operator.index(index)]
        start, size = int(self._starts[number]), int(self._rows["logical_size"][number])
        fill = self._fills[number]
        content = self._contents[start : start + size]
        # Another process may have read it and freed the room.
        if not fill or fill != self._fills[number]:
            self.single_reads += 1
            pack = int(self._rows["pack"][number])
            return self._content(number, os.fspath(self._dataset.pack_path(pack)))
        self._free(number)
        return content

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a StretchMemory is shared with forked workers alone: give the DataLoader "
            "multiprocessing_context='fork'"
        )

    def read(self, stretch: range) -> None:
        """Reads the samples of `stretch` into memory. Samples that lie close together in a pack
        take one read. Raises DatasetDamaged and OSError."""
        for numbers in self._near(np.arange(stretch.start, stretch.stop)):
            self._read_near(numbers)

    def room_bytes(self, samples: int) -> int:
        """Returns the number of bytes that `samples` samples of average size take in memory."""
        return int(self._starts[-1]) * samples // max(1, len(self))

    def clear(self) -> None:
        """Frees the room of all samples in memory."""
        for number in np.flatnonzero(np.frombuffer(self._fills[: len(self)], np.uint8)).tolist():
            self._free(number)
        self._fill = self._fill % 255 + 1

    def close(self) -> None:
        """Frees all memory. Nothing can be read any more."""
        self._contents.close()
        self._fills.close()
        self._dataset.close()

    def _near(self, numbers: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        rows = self._rows[numbers]
        order = np.lexsort((rows["offset"], rows["pack"]))
        rows = rows[order]
        ends = rows["offset"] + rows["stored_size"]
        is_far = rows["offset"][1:] > ends[:-1] + np.uint64(_GAP_BYTES)
        cuts = np.flatnonzero((rows["pack"][1:] != rows["pack"][:-1]) | is_far) + 1
        yield from np.split(numbers[order], cuts)

    def _read_near(self, numbers: NDArray[np.int64]) -> None:
        """Reads samples that lie close together in one pack into a memory file, and copies each to
        its room."""
        rows = self._rows[numbers]
        start, end = int(rows["offset"][0]), int((rows["offset"] + rows["stored_size"]).max())
        path = self._dataset.pack_path(int(rows["pack"][0]))
        scratch = os.memfd_create("fanstore-stretch")
        try:
            self._copy(path, scratch, start, end)
            for number in numbers.tolist():
                content = self._content(number, f"/proc/self/fd/{scratch}")
                at = int(self._starts[number])
                self._contents[at : at + len(content)] = content
                self._fills[number] = self._fill
        finally:
            os.close(scratch)

    def _copy(self, path: os.PathLike[str], scratch: int, start: int, end: int) -> None:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            while start < end:
                data = os.pread(source, end - start, start)
                if not data:
                    raise DatasetDamaged(path, "file", start, "truncated")
                self.stretch_reads += 1
                self.stretch_bytes += len(data)
                os.posix_fadvise(source, start, len(data), os.POSIX_FADV_DONTNEED)
                os.pwrite(scratch, data, start)
                start += len(data)
        finally:
            os.close(source)

    def _content(self, number: int, path: str) -> bytes:
        """Returns the content of a sample, decoded from the copy of its pack at `path`. Raises
        DatasetDamaged."""
        record = int(self._ids[number])
        try:
            with PackReader(self._dataset, path) as reader:
                return b"".join(reader.pieces(record))
        except ContentDamaged:
            name = os.fsdecode(self._dataset.relpath(record))
            at = int(self._rows["offset"][number])
            where = self._dataset.pack_path(int(self._rows["pack"][number]))
            raise DatasetDamaged(where, f"content of {name}", at, "damaged") from None

    def _free(self, number: int) -> None:
        self._fills[number] = 0
        start, end = self._starts[number : number + 2].tolist()
        if end > start:
            self._contents.madvise(mmap.MADV_REMOVE, start, end - start)
