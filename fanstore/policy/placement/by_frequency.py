"""Placement by frequency: each rank keeps the files that it reads most often in its fastest class
(Dryden et al. 2021, NoPFS, section 5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.placement.rules import checked_capacities, fill, fitting

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_CHUNK_FILES = 1 << 16


def by_frequency(
    sizes_bytes: ArrayLike, frequencies: ArrayLike, capacities_bytes: ArrayLike
) -> NDArray[np.uint8]:
    """Returns a placement in which each rank fills its classes with the files that it reads most
    often. Among files that are read equally often, each rank begins with another file, so that
    ranks keep different ones.

    frequencies: how often each rank reads each file (ranks x files). Raises ValueError for
    arguments that do not match. Some files may be on no rank while others are on many."""
    sizes, counts, capacities = _checked(sizes_bytes, frequencies, capacities_bytes)
    return np.stack(
        [
            fill(sizes, _most_read(counts[rank], rank * len(sizes) // len(capacities)), of_rank)
            for rank, of_rank in enumerate(capacities)
        ]
    )


def by_frequency_partitioned(
    sizes_bytes: ArrayLike, frequencies: ArrayLike, capacities_bytes: ArrayLike
) -> NDArray[np.uint8]:
    """Returns a placement like by_frequency, in which no file is kept twice before each is kept
    once: by the rank that reads it most often, of those that have room for it.

    frequencies: how often each rank reads each file (ranks x files). If a rank has several classes,
    the size of the largest file is left free in each but one while files are divided. Raises
    ValueError for arguments that do not go together.
    """
    sizes, counts, capacities = _checked(sizes_bytes, frequencies, capacities_bytes)
    usable = _usable_bytes(sizes, capacities)
    keepers = _divide(sizes, counts, capacities.max(axis=1), usable)
    rows = []
    for rank, of_rank in enumerate(capacities):
        files = _most_read(counts[rank], rank * len(sizes) // len(capacities))
        own = keepers[files] == rank
        others = files[~own & (sizes[files] <= of_rank.max())]
        left = usable[rank] - int(sizes[files[own]].sum())
        wanted = keepers == rank
        wanted[others[: fitting(sizes[others], left)]] = True
        rows.append(fill(sizes, files[wanted[files]], of_rank))
    return np.stack(rows)


def _checked(
    sizes_bytes: ArrayLike, frequencies: ArrayLike, capacities_bytes: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.unsignedinteger], NDArray[np.int64]]:
    sizes = checks.sizes("sizes_bytes", sizes_bytes)
    capacities = checked_capacities(capacities_bytes)
    counts = np.asarray(frequencies)
    if counts.dtype.kind not in "u" or counts.shape != (len(capacities), len(sizes)):
        raise ValueError(
            f"frequencies are {counts.dtype}{counts.shape}; allowed are unsigned integers, "
            f"{len(capacities)} ranks x {len(sizes)} files"
        )
    return sizes, counts, capacities


def _most_read(counts: NDArray[np.unsignedinteger], begin: int) -> NDArray[np.intp]:
    """Returns all files, the most often read first. Files that are read equally often come in the
    order from file `begin` up to the last, then from file 0 on."""
    order = np.argsort(~np.roll(counts, -begin), kind="stable")
    order += begin
    order[order >= len(counts)] -= len(counts)
    return order


def _usable_bytes(sizes: NDArray[np.int64], capacities: NDArray[np.int64]) -> list[int]:
    """Returns how much of each rank's capacity is divided. In each class but the last, files may
    leave room up to the size of the largest file unfilled."""
    largest = int(sizes.max()) if len(sizes) else 0
    usable = []
    for of_rank in capacities:
        spared = largest * max(0, np.count_nonzero(of_rank) - 1)
        usable.append(max(int(of_rank.max()), int(of_rank.sum()) - spared))
    return usable


def _divide(
    sizes: NDArray[np.int64],
    counts: NDArray[np.unsignedinteger],
    largest: NDArray[np.int64],
    usable: list[int],
) -> NDArray[np.int32]:
    """Returns for each file the one rank that keeps it; -1 if no rank can.

    largest: the capacity of each rank's largest class. In each round, every remaining file is
    offered to the rank that reads it most often, among the ranks with a class that is large enough.
    A rank that has no room for all takes those that it reads most often, and is then full. So there
    are at most as many rounds as ranks."""
    keepers = np.full(len(sizes), -1, dtype=np.int32)
    free_bytes = list(usable)
    open_ranks = [rank for rank, free in enumerate(free_bytes) if free > 0]
    left = np.arange(len(sizes))
    while open_ranks:
        left = left[(keepers[left] < 0) & (sizes[left] <= largest[open_ranks].max())]
        if not left.size:
            break
        asked = _most_often(counts, left, sizes, open_ranks, largest)
        for rank in list(open_ranks):
            own = left[asked == rank]
            own = own[np.argsort(~counts[rank, own], kind="stable")]
            taken = own[: fitting(sizes[own], free_bytes[rank])]
            keepers[taken] = rank
            free_bytes[rank] -= int(sizes[taken].sum())
            if len(taken) < len(own):
                open_ranks.remove(rank)
    return keepers


def _most_often(
    counts: NDArray[np.unsignedinteger],
    files: NDArray[np.intp],
    sizes: NDArray[np.int64],
    ranks: list[int],
    largest: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Returns for each file the rank, of `ranks`, that reads it most often, among those that can
    keep a file of that size. If several ranks read it equally often, the choice differs from file
    to file."""
    chosen = np.empty(len(files), dtype=np.int64)
    numbers = np.asarray(ranks)
    for at in range(0, len(files), _CHUNK_FILES):
        some = files[at : at + _CHUNK_FILES]
        keys = counts[numbers[:, None], some].astype(np.int64) * len(ranks)
        keys += (np.arange(len(ranks))[:, None] + some) % len(ranks)
        keys[sizes[some] > largest[numbers][:, None]] = -1
        chosen[at : at + _CHUNK_FILES] = numbers[keys.argmax(axis=0)]
    return chosen
