"""Guesses of the pieces of samples that were not read yet."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fanstore.dataset import NO_RECORD
from fanstore.foresight.between import with_guesses

FIRST, COUNT, PIECE = 1000, 20_000, 16384


def rows_of(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The pieces of samples that lie between bytes of one file."""
    low, high = starts // PIECE + FIRST, (ends - 1) // PIECE + FIRST
    rows = low[:, None] + np.arange(int((high - low).max()) + 1)
    return np.where(rows <= high[:, None], rows, -1).astype(np.uint64)


def hide(rows: NDArray[np.uint64], known: int) -> NDArray[np.uint64]:
    """The rows of `known` samples alone, drawn at random."""
    seen = np.full_like(rows, NO_RECORD)
    some = np.random.RandomState(3).permutation(len(rows))[:known]
    seen[some] = rows[some]
    return seen


def found(rows: NDArray[np.uint64], guessed: NDArray[np.uint64]) -> float:
    """The part of all pieces that was guessed."""
    pairs = [(a, b) for a, b in zip(rows.tolist(), guessed.tolist(), strict=True)]
    there = sum(len({*a} & {*b} - {NO_RECORD}) for a, b in pairs)
    return there / int((rows != NO_RECORD).sum())


@pytest.mark.parametrize("size", [2048, 5000, 40_000])
def test_samples_of_one_size(size: int) -> None:
    starts = np.arange(COUNT, dtype=np.int64) * size
    rows = rows_of(starts, starts + size)
    assert found(rows, with_guesses(hide(rows, 2000), FIRST)) > 0.95


def test_samples_of_sizes_that_differ() -> None:
    ends = np.cumsum(np.random.RandomState(1).randint(500, 4000, COUNT))
    starts = np.append(0, ends[:-1])
    rows = rows_of(starts, ends)
    assert found(rows, with_guesses(hide(rows, COUNT // 2), FIRST)) > 0.9


def test_samples_in_two_files() -> None:
    starts = np.arange(COUNT, dtype=np.int64) * 5000
    rows = np.concatenate(
        [rows_of(starts, starts + 5000), rows_of(starts * 2, starts * 2 + 9000)], 1
    )
    rows[:, 2:] += np.uint64(100_000) * (rows[:, 2:] != NO_RECORD)
    assert found(rows, with_guesses(hide(rows, 3000), FIRST)) > 0.9


def test_no_guess_where_numbers_say_nothing() -> None:
    starts = np.random.RandomState(2).permutation(COUNT).astype(np.int64) * 50_000
    seen = hide(rows_of(starts, starts + 5000), COUNT // 2)
    assert (with_guesses(seen, FIRST) == seen).all()


def test_files_are_not_guessed() -> None:
    rows = np.full((200, 1), NO_RECORD, np.uint64)
    rows[::2, 0] = np.arange(100)
    assert (with_guesses(rows, FIRST) == rows).all()


@pytest.mark.parametrize("shape", [(0, 1), (5, 1), (200, 0)])
def test_few_rows(shape: tuple[int, int]) -> None:
    rows = np.full(shape, NO_RECORD, np.uint64)
    assert with_guesses(rows, FIRST).shape == shape
