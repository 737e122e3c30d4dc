"""Placements that depend only on the number, the sizes or the present places of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.next_use import first_places

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def fastest_elsewhere(classes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns for each rank and file the fastest class in which another rank keeps the file, or
    NOWHERE: uint8 (ranks x files). classes: a placement."""
    fastest = np.full(classes.shape[1:], NOWHERE, dtype=np.uint8)
    second = fastest.copy()
    for row in classes:
        np.minimum(second, np.maximum(fastest, row), out=second)
        np.minimum(fastest, row, out=fastest)
    elsewhere = np.empty_like(classes)
    for row, out in zip(classes, elsewhere, strict=True):
        out[:] = np.where(row == fastest, second, fastest)
    return elsewhere


NOWHERE = 255  # stands for no class: the rank does not keep the file


def checked_capacities(capacities_bytes: ArrayLike) -> NDArray[np.int64]:
    """Returns the capacities in bytes, ranks x classes. Raises ValueError for another shape, for
    values below 0, and if their sum needs more than 63 bits."""
    array = np.asarray(capacities_bytes)
    if array.ndim != 2 or array.dtype.kind not in "iu" or 0 in array.shape:
        raise ValueError(
            f"capacities_bytes are {array.dtype}{array.shape}; "
            "allowed are integers, ranks x classes"
        )
    if array.min() < 0 or array.shape[1] > NOWHERE:
        raise ValueError(
            f"capacities_bytes are {array.min()} and more in {array.shape[1]} classes; "
            f"allowed are 0 bytes and more in up to {NOWHERE}"
        )
    checks.total_bytes("capacities_bytes", array)
    return array.astype(np.int64, copy=False)


def fitting(sizes_bytes: NDArray[np.int64], free_bytes: int) -> int:
    """Returns how many files, counted from the first, fit into `free_bytes`."""
    return int(np.searchsorted(np.cumsum(sizes_bytes), free_bytes, side="right"))


def fill(
    sizes_bytes: NDArray[np.int64], files: NDArray[np.intp], capacities_bytes: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Returns for every file its class on a rank that fills its classes in turn with `files`, in
    that order. A file that is larger than a class goes to a later class."""
    classes = np.full(len(sizes_bytes), NOWHERE, dtype=np.uint8)
    for number, capacity in enumerate(capacities_bytes.tolist()):
        possible = np.flatnonzero(sizes_bytes[files] <= capacity)
        taken = possible[: fitting(sizes_bytes[files[possible]], capacity)]
        classes[files[taken]] = number
        files = np.delete(files, taken)
    return classes


def first_touch(
    sizes_bytes: ArrayLike, reads: Sequence[ArrayLike], capacities_bytes: ArrayLike
) -> NDArray[np.uint8]:
    """Returns a placement in which the rank that first reads a file keeps it, while it has room.

    Source: the dynamic data store of LBANN (Jacobs et al. 2019). reads: the reads of each rank in
    the first epoch. Of two ranks, the one that has read fewer files before is first, then the lower
    rank. Raises ValueError for arguments that do not go together. (LBANN itself fails if a dataset
    exceeds the memory of all ranks.)
    """
    sizes = checks.sizes("sizes_bytes", sizes_bytes)
    capacities = checked_capacities(capacities_bytes)
    if len(reads) != len(capacities):
        raise ValueError(f"reads are of {len(reads)} ranks, capacities_bytes of {len(capacities)}")
    streams = [checks.reads("reads", each, len(sizes)) for each in reads]
    turns = [np.arange(len(each)) * len(streams) + rank for rank, each in enumerate(streams)]
    first = np.full(len(sizes), np.iinfo(np.int64).max)
    for turn, stream in zip(turns, streams, strict=True):
        np.minimum.at(first, stream, turn)
    own = [stream[first[stream] == turn] for turn, stream in zip(turns, streams, strict=True)]
    return np.stack(
        [fill(sizes, files, of_rank) for files, of_rank in zip(own, capacities, strict=True)]
    )


NOBODY = -1  # stands for no rank: no rank keeps the file


def local_reads(
    order: ArrayLike, keepers: ArrayLike, world_size: int, batch_size: int
) -> NDArray[Any]:
    """Returns the reads of each rank (ranks x reads). Of the samples that all ranks read in one
    step, a rank gets those that it keeps, up to batch_size; the others go to ranks that have too
    few.

    Source: locality-aware loading (Yang and Cong 2019), over first_touch or a partition. order: of
    one epoch, whole steps of world_size * batch_size samples. keepers: the rank that keeps each
    file, or NOBODY. Raises ValueError for arguments that do not match."""
    world_size = checks.integer("world_size", world_size, 1)
    step = world_size * checks.integer("batch_size", batch_size, 1)
    owners = checks.integers(keepers)
    if owners.ndim != 1 or owners.dtype.kind not in "iu":
        raise ValueError(f"keepers are {owners.dtype}{owners.shape}; allowed is one row of ranks")
    if owners.size and (owners.min() < NOBODY or owners.max() >= world_size):
        raise ValueError(f"keepers are {owners.min()} to {owners.max()} of {world_size} ranks")
    owners = owners.astype(np.int64, copy=False)
    samples = checks.reads("order", order, len(owners))
    if len(samples) % step:
        raise ValueError(f"order has {len(samples)} samples; allowed are multiples of {step}")
    steps = samples.reshape(-1, step)
    by_owner = np.argsort(owners[steps], axis=1, kind="stable")
    steps = np.take_along_axis(steps, by_owner, axis=1)
    kept_by = owners[steps]
    ranks = np.arange(NOBODY, world_size)
    before = np.stack([(kept_by < rank).sum(axis=1) for rank in ranks], axis=1)
    turn = np.arange(step) - np.take_along_axis(before, kept_by - NOBODY, axis=1)
    stays = (kept_by != NOBODY) & (turn < batch_size)
    rows = np.nonzero(stays)[0]
    found = np.empty_like(steps)
    free = np.ones(steps.shape, dtype=bool)
    places = kept_by[stays] * batch_size + turn[stays]
    found[rows, places] = steps[stays]
    free[rows, places] = False
    found[free] = steps[~stays]  # in each step, as many places are free as samples are left
    by_rank: NDArray[Any] = found.reshape(-1, world_size, batch_size).swapaxes(0, 1)
    return by_rank.reshape(world_size, -1)


def partition(
    sizes_bytes: ArrayLike, order: ArrayLike, capacities_bytes: ArrayLike
) -> NDArray[np.uint8]:
    """Returns a placement in which no file is kept by two ranks: CoorDL's partitioned MinIO cache
    (Mohan et al. 2021, section 6.2).

    The files are listed in the order in which they first come in `order` (such as the first
    epoch's), and after them those that it leaves out. Each rank gets a stretch of that list, in
    proportion to its capacity, and keeps the head of its stretch, as far as it has room.

    Raises ValueError for files without a size, and for capacities that are all 0.
    """
    sizes = checks.sizes("sizes_bytes", sizes_bytes)
    capacities = checked_capacities(capacities_bytes)
    reads = checks.reads("order", order, len(sizes))
    files = np.arange(len(sizes))
    if len(files):
        files = np.argsort(first_places(reads, len(files)), kind="stable")
    upto = np.cumsum(capacities.sum(axis=1))
    if not upto[-1]:
        raise ValueError("capacities_bytes are all 0; allowed is more than 0 on one rank")
    total = np.cumsum(sizes[files])
    due = upto[:-1] / upto[-1] * (total[-1] if len(total) else 0)
    stretches = np.split(files, np.searchsorted(total, due, side="right"))
    return np.stack(
        [fill(sizes, own, of_rank) for own, of_rank in zip(stretches, capacities, strict=True)]
    )
