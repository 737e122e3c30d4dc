"""The numbers of pieces of large files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fanstore._native import dtype_of, lib
from fanstore.pieces import Pieces

MIB, SHIFT = 1 << 20, int(lib.FAN_ENTRY_PIECE_SHIFT)


def table(*sizes: int, compressed: int = -1) -> NDArray[np.void]:
    rows = np.zeros(len(sizes), dtype_of("struct fan_record"))
    rows["logical_size"] = sizes
    rows["codec"] = int(lib.FAN_CODEC_STORE)
    if compressed >= 0:
        rows["codec"][compressed] = int(lib.FAN_CODEC_STORE) + 1
    return rows


def ids(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


def test_pieces_follow_the_records() -> None:
    rows = table(1, 9 * MIB, 8 * MIB, 10 * MIB + 1, 20 * MIB, compressed=4)
    pieces = Pieces(5, [(0, rows[:2]), (2, rows[2:])])
    assert (pieces.first, pieces.end) == (5, 5 + 9 * 64 + 10 * 64 + 1)
    numbers = pieces.numbers(ids(1, 1, 3, 3), ids(0, 575, 0, 640))
    assert numbers.tolist() == [5, 580, 581, 1221]
    entries = pieces.entries(np.append(numbers, ids(0, 4)))
    assert entries.tolist() == [
        1 | 1 << SHIFT, 1 | 576 << SHIFT, 3 | 1 << SHIFT, 3 | 641 << SHIFT, 0, 4,
    ]  # fmt: skip


def test_notes_that_name_no_piece() -> None:
    pieces = Pieces(3, [(0, table(9 * MIB, 1, 20 * MIB, compressed=2))])
    wrong = pieces.numbers(ids(0, 1, 2, 3, 2**32 - 1), ids(576, 0, 0, 0, 2**24 - 1))
    assert (wrong == pieces.end).all()


def test_a_dataset_without_large_files() -> None:
    pieces = Pieces(2, [(0, table(5, 6))])
    assert pieces.end == 2
    assert pieces.entries(ids(1, 0)).tolist() == [1, 0]
    assert pieces.numbers(ids(0), ids(0)).tolist() == [2]


def test_more_pieces_than_numbers() -> None:
    """Files whose pieces would have no number are foreseen in no pieces."""
    pieces = Pieces(2, [(0, table(*[1 << 38] * 300))])
    assert pieces.end <= 2**32
    assert pieces.end - 2 == 255 << 24
