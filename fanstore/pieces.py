"""Numbers the pieces of large files, so that an order can name a piece as it names a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fanstore._native import lib
from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.uint64]

_NUMBERS_MAX = 0xFFFFFFFF  # numbers have 32 bits, and the last one means none
_PIECE_SHIFT = np.uint64(lib.FAN_ENTRY_PIECE_SHIFT)


class Pieces:
    """The pieces of a dataset's large files, each of FAN_PIECE_BYTES. Their numbers begin at
    `first`, after the last record id, and end before `end`: file by file, in the order of the
    records. Compressed files have none."""

    def __init__(self, record_count: int, tables: Iterable[tuple[int, NDArray[Any]]]) -> None:
        """tables: parts of all records, each with the id of its first record."""
        records, counts = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for first, rows in tables:
            sizes = rows["logical_size"]
            is_stored = rows["codec"] == lib.FAN_CODEC_STORE
            large = np.flatnonzero(is_stored & (sizes > lib.FAN_PIECES_ABOVE_BYTES))
            records.append((large + first).astype(np.uint64))
            counts.append(-(-sizes[large].astype(np.int64) // lib.FAN_PIECE_BYTES))
        self.first = record_count
        self._counts = np.minimum(np.concatenate(counts).astype(np.uint64), 1 << 24)
        self._records = np.concatenate(records)
        ends = np.uint64(self.first) + np.cumsum(self._counts, dtype=np.uint64)
        if len(ends) and ends[-1] > _NUMBERS_MAX:  # 64 TiB: some must do without
            fits = ends <= _NUMBERS_MAX
            self._counts, self._records, ends = self._counts[fits], self._records[fits], ends[fits]
        self._starts = ends - self._counts
        self.end = int(ends[-1]) if len(ends) else self.first

    def places(self, records: Numbers) -> tuple[Numbers, Numbers]:
        """Returns the number of the first piece of each record, and how many pieces it has: 0 if it
        is no large file."""
        at = np.searchsorted(self._records, records)
        firsts, counts = np.zeros(len(records), np.uint64), np.zeros(len(records), np.uint64)
        there = at < len(self._records)
        there[there] = self._records[at[there]] == records[there]
        firsts[there], counts[there] = self._starts[at[there]], self._counts[at[there]]
        return firsts, counts

    def numbers(self, records: Numbers, pieces: Numbers) -> Numbers:
        """Returns the numbers of pieces, each given by its record and its place in the file; `end`
        if there is no such piece."""
        firsts, counts = self.places(records)
        return np.where(pieces < counts, firsts + pieces, np.uint64(self.end))

    def entries(self, numbers: Numbers) -> Numbers:
        """Returns the entries of an order of the core (csrc/node/foresight/orders.h) for record ids
        and numbers of pieces."""
        is_piece = numbers >= self.first
        some = numbers[is_piece]
        at = np.searchsorted(self._starts, some, side="right") - 1
        entries = numbers.astype(np.uint64)
        place = some - self._starts[at] + np.uint64(1)
        entries[is_piece] = self._records[at] | place << _PIECE_SHIFT
        return entries
