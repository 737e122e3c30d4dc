"""The pieces of samples that are ranges of bytes in large files."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from fanstore._native import dtype_of, lib
from fanstore.dataset import NO_RECORD
from fanstore.foresight.ranges import pieces_of
from fanstore.pieces import Pieces

MIB, PIECE, AROUND = 1 << 20, 16 << 10, 32 << 10
SIZES = [9 * MIB, 100, 12 * MIB + 5]


def made() -> Pieces:
    rows = np.zeros(len(SIZES), dtype_of("struct fan_record"))
    rows["logical_size"], rows["codec"] = SIZES, int(lib.FAN_CODEC_STORE)
    return Pieces(len(SIZES), [(0, rows)])


def ids(*numbers: int) -> NDArray[np.uint64]:
    return np.array(numbers, np.uint64)


def table(*rows: tuple[int, int, int, int, int]) -> bytes:
    return np.array(rows, np.int64).tobytes()


def pairs(ranges: bytes, records: NDArray[np.uint64]) -> set[tuple[int, int]]:
    samples, numbers = pieces_of(ranges, records, made(), AROUND)
    return set(zip(samples.tolist(), numbers.tolist(), strict=True))


def expected(sample: int, first: int, size: int, begin: float, end: float) -> set[tuple[int, int]]:
    """The pieces of a sample with all that the kernel reads around it. first: the number of the
    file's first piece; size: of the file."""
    low, high = max(0, int(begin) - AROUND), min(size, int(end) + AROUND)
    return {(sample, first + n) for n in range(low // PIECE, -(-high // PIECE))}


def test_rows_of_one_size() -> None:
    """Also at both ends of a file."""
    count, size = 7, 9 * MIB // 7
    whole = set[tuple[int, int]]()
    for n in range(count):
        whole |= expected(10 + n, 3, SIZES[0], n * size, (n + 1) * size)
    assert pairs(table((0, 10, count, 0, count * size)), ids(0)) == whole


def test_random_ranges_of_two_files() -> None:
    rng = random.Random(5)
    rows, whole = [], set[tuple[int, int]]()
    for sample in range(300):
        file = rng.randrange(2)
        size, first = ((SIZES[0], 3), (SIZES[2], 3 + 9 * 64))[file]
        begin = rng.randrange(size)
        end = min(size, begin + rng.choice([0, 1, 5000, 200_000]))
        rows.append((file, sample, 1, begin, end))
        if begin < end:
            whole |= expected(sample, first, size, begin, end)
    told = pairs(table(*rows), ids(0, 2))
    assert whole <= told
    assert {sample for sample, _ in told - whole} <= {row[1] for row in rows if row[3] == row[4]}


def test_small_and_missing_files_have_no_pieces() -> None:
    assert pairs(table((0, 0, 2, 0, 50), (1, 2, 1, 0, 50)), ids(1, NO_RECORD)) == set()


@pytest.mark.parametrize(
    "row",
    [
        (1, 0, 1, 0, 5), (-1, 0, 1, 0, 5), (0, -1, 1, 0, 5), (0, 0, 0, 0, 5), (0, 0, -1, 0, 5),
        (0, 0, 1, -1, 5), (0, 0, 1, 6, 5), (0, 0, 1, 0, 1 << 62), (0, 0, 1 << 40, 0, 5),
        (0, 1 << 27, 1, 0, 5), (0, 1 << 62, 1, 0, 5),
    ],
)  # fmt: skip
def test_ranges_that_are_not_valid(row: tuple[int, int, int, int, int]) -> None:
    with pytest.raises(ValueError, match="not valid"):
        pieces_of(table(row), ids(0), made(), 0)


def test_other_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="buffer size"):
        pieces_of(b"123", ids(0), made(), 0)
    monkeypatch.setattr("fanstore.foresight.ranges._PIECES_MAX", 500)
    for many in (table((0, 0, 500, 0, 1), (0, 0, 1, 0, 5)), table((0, 0, 1, 0, 9 * MIB))):
        with pytest.raises(ValueError, match="too many pieces"):
            pieces_of(many, ids(0), made(), 0)
