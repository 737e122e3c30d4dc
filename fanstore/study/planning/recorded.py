"""Recorded orders: what each rank has read, from a file a rank, of numbers or of names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.dataset import Dataset
from fanstore.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALLOWED = (
    "a NumPy file of integers (reads, or epochs x reads), or a text with a number or a path on "
    "each line and an empty line between epochs"
)

Epochs = list["NDArray[np.uint32]"]  # of one rank


def recorded_order(
    paths: Sequence[Path], ranks: int, epochs: int, dataset: Dataset, records: NDArray[np.int64]
) -> tuple[list[NDArray[Any]], ...]:
    """Returns what each rank reads in each epoch (epochs x ranks), as numbers of samples.

    paths: a file for each rank. records: the record of each sample. Raises UsageError with the
    file where it is no such file, of other ranks, epochs or samples.
    """
    if len(paths) != ranks:
        raise UsageError(f"--recorded: {len(paths)} files for {ranks} ranks; allowed: one for each")
    by_rank = [_epochs_of(path, dataset, records) for path in paths]
    for path, each in zip(paths, by_rank, strict=True):
        if len(each) not in (1, epochs) or len(each) != len(by_rank[0]):
            raise UsageError(
                f"{path}: {len(each)} epochs are recorded; allowed: {epochs}, or 1 that is "
                "repeated, and the same for all ranks"
            )
    return tuple(list(epoch) for epoch in zip(*by_rank, strict=True))


def _epochs_of(path: Path, dataset: Dataset, records: NDArray[np.int64]) -> Epochs:
    found = _from_numpy(path) if path.suffix == ".npy" else _from_text(path, dataset, records)
    for number, reads in enumerate(found):
        if not len(reads):
            raise UsageError(f"{path}: epoch {number} is empty; allowed: {_ALLOWED}")
        if reads.min() < 0 or reads.max() >= len(records):
            wrong = int(reads.max() if reads.min() >= 0 else reads.min())
            raise UsageError(
                f"{path}: epoch {number} reads sample {wrong}, and the dataset has "
                f"{len(records):,}; allowed: 0 to {len(records) - 1}"
            )
    return [reads.astype(np.uint32) for reads in found]


def _from_numpy(path: Path) -> list[NDArray[Any]]:
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise UsageError(f"{path}: {error}; allowed: {_ALLOWED}") from None
    if (
        not isinstance(array, np.ndarray)
        or array.dtype.kind not in "iu"
        or array.ndim not in (1, 2)
    ):
        raise UsageError(f"{path}: no one or two dimensions of integers; allowed: {_ALLOWED}")
    return list(np.atleast_2d(array))


def _from_text(path: Path, dataset: Dataset, records: NDArray[np.int64]) -> list[NDArray[Any]]:
    known: dict[bytes, int] = {}
    epochs: list[list[int]] = [[]]
    for number, line in _lines(path):
        if not line:
            epochs.append([])
            continue
        sample = known.get(line)
        if sample is None:
            sample = known[line] = _sample(f"{path}:{number}", line, dataset, records)
        epochs[-1].append(sample)
    if len(epochs) > 1 and not epochs[-1]:
        epochs.pop()  # the empty line at the end
    return [np.array(reads, dtype=np.int64) for reads in epochs]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            yield number, line.rstrip(b"\r\n")


def _sample(where: str, line: bytes, dataset: Dataset, records: NDArray[np.int64]) -> int:
    if line.isdigit() and len(line) < 19:
        return int(line)
    parts = [part for part in line.split(b"/") if part not in (b"", b".")]
    try:
        record = dataset.lookup(b"/".join(parts))
    except FileNotFoundError:
        record = -1
    place = int(np.searchsorted(records, record))
    if place == len(records) or records[place] != record:
        raise UsageError(f"{where}: {os.fsdecode(line)!r} is no file of the samples of this plan")
    return place
