"""Measures rates: of the shared file system, by the number of readers on all ranks; of a local disk
and of copies in memory, by the number of threads."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.dataset import INDEX_NAME
from fanstore.errors import FanstoreError
from fanstore.staging.memory import available_bytes
from fanstore.study.calibrate.extents import (
    PAGE_BYTES,
    Extent,
    cached_share,
    drop,
    head,
    naming,
    own_files,
    pack_extents,
    packs_bytes,
    portions,
    read,
    write,
)
from fanstore.study.calibrate.together import Bench, Measured, Repeats

if TYPE_CHECKING:
    from numpy.typing import NDArray

COUNTS = (1, 2, 4, 8)
Gather = Callable[[Any], list[Any]]

_CACHED_MOST = 0.1  # of the bytes: the kernel reads ahead into the parts of other readers


def reader_counts(ranks: int) -> tuple[int, ...]:
    """Returns the numbers of readers with which to measure the shared file system, including the
    number of ranks if that is larger."""
    return tuple(sorted({*COUNTS, max(COUNTS[-1], ranks)}))


def shared_rates(
    directory: Path, budget_bytes: int, repeats: int, bench: Bench, turn: Sequence[int]
) -> Measured:
    """Measures a shared directory: the packs in it if it is a dataset, otherwise files that are
    written to it. turn: the ranks in the order in which they get readers. Every rank calls this.
    Raises FanstoreError."""
    counts = reader_counts(len(turn))
    is_dataset = (directory / INDEX_NAME).exists()
    available = packs_bytes(directory) - PAGE_BYTES * max(counts) if is_dataset else budget_bytes
    unit, sizes = portions(counts, min(budget_bytes, max(0, available)))
    if unit < PAGE_BYTES:
        raise FanstoreError(f"{directory}: the dataset is too small to be read by {counts[-1]}")
    own = [turn[reader % len(turn)] == bench.world.rank for reader in range(len(sizes))]
    with naming(directory), _extents(directory, is_dataset, sizes, own, bench) as extents:
        measured = _read_rates(extents, counts, unit, repeats, bench, bench.world.gather_all)
    what = "packs of a dataset" if is_dataset else "files written for this"
    return Measured(measured.points, (f"{unit:,} bytes at a time of {what}", *measured.notes))


@contextlib.contextmanager
def _extents(
    directory: Path, is_dataset: bool, sizes: Sequence[int], own: Sequence[bool], bench: Bench
) -> Iterator[list[list[Extent]]]:
    """Yields the extents of each reader; none for readers on other ranks."""
    if is_dataset:
        with pack_extents(directory, sizes, own) as extents:
            yield extents
        return
    mine = [size for size, is_own in zip(sizes, own, strict=True) if is_own]
    with own_files(directory, mine, bench) as files:
        waiting = iter(files)
        yield [next(waiting) if is_own else [] for is_own in own]


def _read_rates(
    extents: Sequence[Sequence[Extent]],
    counts: Sequence[int],
    unit: int,
    repeats: int,
    bench: Bench,
    gather: Gather,
) -> Measured:
    """Makes some readers read `unit` bytes together, without the page cache. Readers on other ranks
    have no extents here. gather: returns the values of all ranks."""
    points = {}
    cached: list[float | None] = []
    for count in counts:
        share = _share(unit, count)
        parts = [head(each, share) for each in extents[:count]]
        seconds = []
        for _ in range(repeats):
            for part in parts:
                drop(part)
                cached.append(cached_share(part))
            gather(None)
            own_s = bench.together([partial(read, part, bench) for part in parts if part])
            seconds.append(max(gather(own_s)))
        points[count] = Repeats(share * count, tuple(seconds))
    return Measured(points, tuple(_cache_notes(gather(_worst(cached)))))


def _worst(cached: Sequence[float | None]) -> float | None:
    return None if None in cached else max((each for each in cached if each is not None), default=0)


def _cache_notes(cached: Sequence[float | None]) -> Iterator[str]:
    """Yields notes about pages that were in the page caches of ranks."""
    most = max((each for each in cached if each is not None), default=0)
    if most > _CACHED_MOST:
        yield (
            f"WORTHLESS: up to {100 * most:.0f} % of it stayed in the page cache, which cannot be "
            "dropped here: this is the rate of memory"
        )
    if None in cached:
        yield "only the files' owner can see whether the page cache was dropped"


def local_rates(
    directory: Path, budget_bytes: int, repeats: int, bench: Bench
) -> tuple[Measured, Measured]:
    """Measures reading from and writing to a local directory, by the number of threads of this
    rank. Raises FanstoreError."""
    unit, sizes = portions(COUNTS, budget_bytes)
    with naming(directory):
        with own_files(directory, sizes, bench) as extents:
            reading = _read_rates(extents, COUNTS, unit, repeats, bench, lambda value: [value])
        points = {}
        for count in COUNTS:
            share = _share(unit, count)
            seconds = [_written_s(directory, count, share, bench) for _ in range(repeats)]
            points[count] = Repeats(share * count, tuple(seconds))
    return reading, Measured(points, ("with fsync",))


def _written_s(directory: Path, count: int, size: int, bench: Bench) -> float:
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(tempfile.TemporaryFile(dir=directory, buffering=0))
            for _ in range(count)
        ]
        extents = [Extent(file.fileno(), 0, size) for file in files]
        return bench.together([partial(write, extent, bench) for extent in extents])


def _share(unit: int, count: int) -> int:
    """Returns how much of a unit each of `count` readers reads: whole pages."""
    return -(-unit // count // PAGE_BYTES) * PAGE_BYTES


_PIECE_BYTES = 1 << 20
_ROUNDS = 8  # copies in a row, so that the time can be measured


def copy_rates(budget_bytes: int, repeats: int, bench: Bench) -> Measured:
    """Measures how fast threads copy from one half of `budget_bytes` (at least 16 MiB) to the
    other, in copied bytes."""
    of_each = max(1, budget_bytes // 2 // _PIECE_BYTES // COUNTS[-1]) * _PIECE_BYTES
    half = of_each * COUNTS[-1]
    # Ones, so that all pages are allocated.
    source, target = np.ones(half, dtype=np.uint8), np.ones(half, dtype=np.uint8)
    points = {}
    for count in COUNTS:
        parts = list(zip(np.split(source, count), np.split(target, count), strict=True))
        works = [partial(_copy, *part, bench) for part in parts]
        points[count] = Repeats(
            _ROUNDS * half, tuple(bench.together(works) for _ in range(repeats))
        )
    return Measured(points)


def _copy(source: NDArray[np.uint8], target: NDArray[np.uint8], bench: Bench) -> None:
    for _ in range(_ROUNDS):
        for at in range(0, len(source), _PIECE_BYTES):
            bench.check()
            np.copyto(target[at : at + _PIECE_BYTES], source[at : at + _PIECE_BYTES])


def free_bytes() -> int:
    """Returns how much memory a job can use on this node: the available memory, or less if the
    control group limits it."""
    with open("/proc/meminfo", encoding="ascii") as stream:
        table = dict(line.split(":", 1) for line in stream)
    amount = int(table["MemAvailable"].split()[0]) << 10
    allowed = available_bytes()
    return amount if allowed is None else min(amount, allowed)


def processors() -> int:
    """Returns the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0))
