"""Guesses which pieces of large files belong to samples that were not read yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.dataset import NO_RECORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.uint64]
    Floats = NDArray[np.float64]
    Samples = NDArray[np.int64]

_KNOWN_MIN = 64  # fewer samples prove nothing
_RIGHT = 0.95  # the part of the known samples for which a guess must hold
# Over how many samples a guess takes the mean: many for samples of one size, one for others.
_WIDTHS = (1, 5, 15, 45)


def has_pieces(rows: Rows, first: int) -> bool:
    """Returns whether some samples have pieces of large files. rows, first: as in with_guesses."""
    return bool(((rows >= first) & (rows != NO_RECORD)).any())


def with_guesses(rows: Rows, first: int) -> Rows:
    """Returns the rows with the pieces of unknown samples filled in, if samples lie in their files
    in the order of their numbers: then a sample lies between its neighbours. rows: the files and
    pieces of all samples by number, one row for each sample, NO_RECORD in free places. first: the
    first number of a piece."""
    unknown = np.flatnonzero((rows == NO_RECORD).all(axis=1))
    if not len(unknown) or not has_pieces(rows, first):
        return rows
    known, runs = _runs(rows, first)
    if len(known) < _KNOWN_MIN:
        return rows
    guesses = [_guess(unknown, known, ends) for ends in runs.T]
    found = [each for each in guesses if each is not None]
    if len(found) < len(guesses):
        return rows
    parts = [
        _spread(low, high, rows.shape[1]) for low, high in zip(found[::2], found[1::2], strict=True)
    ]
    filled = np.concatenate(parts, axis=1)
    more = max(0, filled.shape[1] - rows.shape[1])
    rows = np.pad(rows, ((0, 0), (0, more)), constant_values=NO_RECORD)
    rows[unknown, : filled.shape[1]] = filled
    return rows


def _runs(rows: Rows, first: int) -> tuple[Samples, Rows]:
    """Returns samples with their runs of adjacent pieces: for each run its first and last piece.
    These are all samples that have as many runs as most have."""
    pieces = np.sort(np.where(rows < first, np.uint64(NO_RECORD), rows), axis=1)
    there = pieces != NO_RECORD
    follows = np.zeros(pieces.shape, bool)
    follows[:, 1:] = there[:, 1:] & (pieces[:, 1:] == pieces[:, :-1] + np.uint64(1))
    begins, ends = there & ~follows, there.copy()
    ends[:, :-1] &= ~follows[:, 1:]
    counts = begins.sum(axis=1)
    usual = int(np.bincount(counts[counts > 0]).argmax()) if counts.any() else 0
    samples = np.flatnonzero(counts == usual) if usual else np.empty(0, np.int64)
    shape = (len(samples), usual)
    lows, highs = (pieces[samples][each[samples]].reshape(shape) for each in (begins, ends))
    return samples, np.stack([lows, highs], axis=2).reshape(len(samples), 2 * usual)


def _guess(unknown: Samples, known: Samples, pieces: Rows) -> Rows | None:
    """Returns the pieces of unknown samples. None if every second known one does not lie where the
    others say."""
    best, right = 0, 0.0
    for width in _WIDTHS:
        off = _between(known[1::2], known[::2], pieces[::2], width) - pieces[1::2].astype(np.int64)
        exact = float((off == 0).mean())
        if (np.abs(off) <= 1).mean() >= _RIGHT and exact > right:
            best, right = width, exact
    return _between(unknown, known, pieces, best).astype(np.uint64) if best else None


def _between(samples: Samples, known: Samples, pieces: Rows, width: int) -> Samples:
    """Returns the pieces of samples, by the means of `width` known ones around each."""
    # A number of a piece is rounded down, so on the mean it is too small by a half.
    at, where = _means(known.astype(np.float64), width), _means(pieces.astype(np.float64), width)
    return np.floor(np.interp(samples, at, where) + 0.5).astype(np.int64)


def _means(values: Floats, width: int) -> Floats:
    """Returns the means of each `width` values in a row; at both ends the values themselves."""
    half = width // 2
    means: Floats = np.convolve(values, np.full(width, 1 / width), "valid")
    return np.concatenate([values[:half], means, values[len(values) - half :]])


def _spread(low: Rows, high: Rows, most: int) -> Rows:
    """Returns all pieces from `low` to `high` of each sample, at most `most`, one row for each
    sample."""
    width = int(np.clip(high.astype(np.int64) - low.astype(np.int64) + 1, 1, most).max(initial=1))
    spread = low[:, None] + np.arange(width, dtype=np.uint64)
    return np.where(spread <= np.maximum(low, high)[:, None], spread, np.uint64(NO_RECORD))
