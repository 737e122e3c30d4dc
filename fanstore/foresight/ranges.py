"""Samples that are ranges of bytes in large files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore._native import lib
from fanstore.arrays import np

if TYPE_CHECKING:
    from mmap import mmap

    from numpy.typing import NDArray

    from fanstore.pieces import Pieces

    Buffer = bytes | mmap
    Ids = NDArray[np.int64]

# A range: the number of its file; its first sample and how many samples lie in it, one behind the
# other and of the same size; the first byte of the first sample and the end of the last one.
_RANGE = np.dtype([(name, "<i8") for name in ("file", "first", "count", "begin", "end")])
# The kernel reads so much before and behind a page of a mapped file that is touched: half of
# READAHEAD_BYTES in csrc/maps/fuse.c.
AROUND_BYTES = 32 << 10
_BYTES_MAX = 1 << 60
_PIECES_MAX = 1 << 24
SAMPLES_MAX = 1 << 27  # the most samples of a dataset


def pieces_of(
    ranges: Buffer, records: NDArray[np.uint64], pieces: Pieces, around_bytes: int
) -> tuple[Ids, NDArray[np.uint64]]:
    """Returns the pieces of samples: pairs of a sample and the number of a piece, as two arrays.
    records: the record id of each file in the dataset of `pieces`, NO_RECORD if it is not there.
    around_bytes: how much more is read before and behind each sample. Raises ValueError if the
    ranges are not valid, or have more than 2^24 pieces."""
    table = np.frombuffer(ranges, _RANGE)
    files, counts, begins, ends = (table[name] for name in ("file", "count", "begin", "end"))
    is_valid = (files >= 0) & (files < len(records)) & (table["first"] >= 0) & (counts > 0)
    is_valid &= (counts <= _PIECES_MAX) & (begins >= 0) & (begins <= ends) & (ends < _BYTES_MAX)
    is_valid &= table["first"] <= SAMPLES_MAX - np.minimum(counts, SAMPLES_MAX)
    if not is_valid.all():
        raise ValueError("the ranges of samples are not valid")
    firsts, lengths = (each.astype(np.int64) for each in pieces.places(records[files]))
    of_each = 1 + ((ends - begins) / counts + 2 * around_bytes) / lib.FAN_PIECE_BYTES
    if (counts * of_each)[lengths > 0].sum() > _PIECES_MAX:  # so many at least, and a little more
        raise ValueError("the samples of its dataset have too many pieces")
    samples, which = _spread(table["first"], np.where(lengths > 0, counts, 0))
    step = ((ends - begins) / counts)[which]
    place = begins[which] + (samples - table["first"][which]) * step
    low, high = place - around_bytes, place + step + around_bytes - 1
    low, high = (np.maximum(each, 0) // lib.FAN_PIECE_BYTES for each in (low, high))
    last = np.minimum(high.astype(np.int64), lengths[which] - 1)
    low = low.astype(np.int64)
    found, of = _spread(firsts[which] + low, np.maximum(last - low + 1, 0))
    return samples[of], found.astype(np.uint64)


def _spread(firsts: Ids, counts: Ids) -> tuple[Ids, Ids]:
    """Returns counts[i] successive numbers from firsts[i] on, for all i, and the i of each."""
    total = int(counts.sum())
    which = np.repeat(np.arange(len(counts)), counts)
    return firsts[which] + np.arange(total) - (np.cumsum(counts) - counts)[which], which
