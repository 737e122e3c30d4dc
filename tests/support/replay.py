"""Simulates a cache on a sequence of reads, under each policy (csrc/policy/replay.h)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanstore._native import check, ffi, lib
from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.next_use import NEVER

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# For each policy, the arguments that it needs besides the reads, and the optional ones.
_NEEDED: dict[str, tuple[str, ...]] = {
    "close": (),
    "lru": (),
    "random": (),
    "minio": (),
    "none": (),
    "frequency": ("frequencies",),
    "reuse": ("next_uses", "epoch_reads"),
    "belady": ("next_uses",),
}
_TAKEN: dict[str, tuple[str, ...]] = {"frequency": ("count_down",), "reuse": ("lone",)}

POLICIES = tuple(_NEEDED)


@dataclass(frozen=True)
class CacheReplay:
    """The result of a replay. hit: for each read, whether the cache had the sample. admissions,
    evictions: the number of samples that entered and left the cache. peak_bytes: the most bytes
    that it held."""

    hit: NDArray[np.bool_]
    hits: int
    hit_bytes: int
    misses: int
    missed_bytes: int
    admissions: int
    admitted_bytes: int
    evictions: int
    evicted_bytes: int
    peak_bytes: int


def replay(
    policy: str,
    reads: ArrayLike,
    sizes: ArrayLike,
    capacity_bytes: int,
    *,
    next_uses: ArrayLike | None = None,
    frequencies: ArrayLike | None = None,
    count_down: bool | None = None,
    epoch_reads: int | None = None,
    lone: ArrayLike | None = None,
) -> CacheReplay:
    """Returns the result of a cache of capacity_bytes when samples are read one after the other.

    reads: numbers of samples. sizes: the bytes of each sample, or one number if all have the same.
    next_uses (reuse, belady): for each read the place of the next one of its sample, or NEVER.
    frequencies (frequency): how often each sample is read; with count_down each read takes one off,
    so that the reads to come count. epoch_reads (reuse): how many reads an epoch has. lone (reuse):
    for each sample whether nobody else has a copy; such a sample leaves only when room is needed.
    Under close and none nothing is kept after its use. Raises ValueError for an unknown policy, a
    missing argument, an argument that the policy does not take, and values out of range.
    """
    told: dict[str, Any] = {
        "next_uses": next_uses,
        "frequencies": frequencies,
        "count_down": count_down,
        "epoch_reads": epoch_reads,
        "lone": lone,
    }
    _check_told(policy, [name for name, value in told.items() if value is not None])
    samples, each, same_bytes = _reads_and_sizes(reads, sizes)
    count = len(each) if each is not None else int(samples.max(initial=0)) + 1
    hits = np.empty(len(samples), dtype=np.uint8)
    arrays: dict[str, NDArray[Any] | None] = {
        "items": samples,
        "sizes": each,
        "next_uses": None if next_uses is None else _next_uses(next_uses, len(samples)),
        "frequencies": None if frequencies is None else _row("frequencies", frequencies, count),
        "lone": None if lone is None else _lone(lone, count),
        "hits": hits,
    }
    counts_down = count_down is not None and checks.flag("count_down", count_down)
    if counts_down and arrays["frequencies"] is not None:
        arrays["frequencies"] = _to_count_down(arrays["frequencies"], samples)
    fields = {
        "policy": getattr(lib, f"FAN_POLICY_{policy.upper()}"),
        "read_count": len(samples),
        "item_count": count,
        "item_bytes": same_bytes,
        "capacity_bytes": checks.integer("capacity_bytes", capacity_bytes, 0, 2**63 - 1),
        "count_down": counts_down,
        "epoch_reads": 0 if epoch_reads is None else checks.integer("epoch_reads", epoch_reads, 1),
    }
    counts = _run(fields, arrays)
    return CacheReplay(hit=hits.view(np.bool_), **counts)


def _run(fields: dict[str, int], arrays: dict[str, NDArray[Any] | None]) -> dict[str, int]:
    totals = ffi.new("struct fan_replay_totals *")
    pointers = {name: _pointer(array) for name, array in arrays.items()}
    check(lib.fan_replay_run(ffi.new("struct fan_replay *", {**fields, **pointers}), totals))
    return {name: int(getattr(totals, name)) for name, _ in ffi.typeof(totals).item.fields}


def _pointer(array: NDArray[Any] | None) -> Any:
    return ffi.NULL if array is None else ffi.from_buffer(f"{array.dtype}_t[]", array)


def _check_told(policy: str, told: list[str]) -> None:
    if policy not in _NEEDED:
        raise ValueError(f"policy is {policy!r}; allowed are {', '.join(POLICIES)}")
    needed, taken = _NEEDED[policy], _NEEDED[policy] + _TAKEN.get(policy, ())
    for name in needed:
        if name not in told:
            raise ValueError(f"policy {policy} needs {name}")
    for name in told:
        if name not in taken:
            allowed = ", ".join(taken) or "none"
            raise ValueError(f"policy {policy} takes no {name}; allowed are {allowed}")


def _reads_and_sizes(
    reads: ArrayLike, sizes: ArrayLike
) -> tuple[NDArray[np.uint32], NDArray[np.uint64] | None, int]:
    """Returns the reads; the size of each sample, or None if all have one size; that one size, or
    0."""
    if np.ndim(sizes) == 0:
        same_bytes = checks.integer("sizes", np.asarray(sizes).item(), 0, 2**63 - 1)
        each, count = None, checks.SAMPLES_MAX
    else:
        same_bytes = 0
        each = np.ascontiguousarray(checks.sizes("sizes", sizes)).view(np.uint64)
        count = checks.sample_count(len(each))
    samples = np.ascontiguousarray(checks.reads("reads", reads, count), dtype=np.uint32)
    if len(samples) >= NEVER:
        raise ValueError(f"reads are {len(samples)}; allowed are less than {NEVER}")
    return samples, each, same_bytes


def _row(name: str, values: ArrayLike, count: int) -> NDArray[np.uint32]:
    """Returns `values` as an array of `count` numbers of 32 bits."""
    array = checks.integers(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name} is {array.dtype}{array.shape}; allowed is one row of integers")
    if len(array) != count:
        raise ValueError(f"{name} has {len(array)} entries; allowed are {count}")
    if array.size and (array.min() < 0 or array.max() > NEVER):
        raise ValueError(f"{name} has {array.min()} to {array.max()}; allowed are 0 to {NEVER}")
    row: NDArray[np.uint32] = np.ascontiguousarray(array, dtype=np.uint32)
    return row


def _next_uses(values: ArrayLike, read_count: int) -> NDArray[np.uint32]:
    """Returns for each read the position of the next read of its sample."""
    places = _row("next_uses", values, read_count)
    early = np.flatnonzero(places <= np.arange(read_count, dtype=np.uint32))
    if early.size:
        raise ValueError(
            f"next_uses has place {places[early[0]]} for read {early[0]}; allowed are later places"
        )
    return places


def _to_count_down(
    frequencies: NDArray[np.uint32], samples: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Returns a copy of the frequencies, which the replay may change."""
    read = np.bincount(samples, minlength=len(frequencies))
    short = np.flatnonzero(read > frequencies)
    if short.size:
        raise ValueError(
            f"frequencies has {frequencies[short[0]]} for sample {short[0]}, which is read "
            f"{read[short[0]]} times; allowed is as many or more"
        )
    copy: NDArray[np.uint32] = frequencies.copy()
    return copy


def _lone(values: ArrayLike, count: int) -> NDArray[np.uint8]:
    array = np.asarray(values)
    if array.shape != (count,) or array.dtype != np.bool_:
        raise ValueError(f"lone is {array.dtype}{array.shape}; allowed is bool({count},)")
    flags: NDArray[np.uint8] = np.ascontiguousarray(array).view(np.uint8)
    return flags
