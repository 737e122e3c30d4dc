"""What the programs of a job count, as watchers get it: by what was waited for, and by program."""

from __future__ import annotations

import mmap
import time
from typing import Any

from fanstore._native import check, ffi, lib

# What is waited for, in the order of enum fan_stall_source.
SOURCES = tuple(
    name.removeprefix("FAN_STALL_").lower()
    for _, name in sorted(ffi.typeof("enum fan_stall_source").elements.items())
    if name != "FAN_STALL_SOURCES"
)
# Of these bytes are counted; what a local pack gives is copied without a count of its own.
_ELSEWHERE = ("cache", "rank", "shared")
_COUNTERS = (
    "opens", "reads", "read_bytes", "decoded_bytes", "errors", "cache_hits", "cache_misses",
    "remote_bytes", "shared_bytes",
)  # fmt: skip


def read_stalls(segment: str) -> dict[str, dict[str, Any]]:
    """Returns, for each source, how often all programs waited for it (count), for how long (ns),
    a histogram of waits (bins, by powers of two of ns), and where they are counted the stored bytes
    that came from there."""
    total = ffi.new("struct fan_counters *")
    with (
        open(segment, "rb") as stream,
        mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapping,
    ):
        check(lib.fan_trace_sum(ffi.from_buffer(mapping), len(mapping), total))
    return {
        source: {
            "count": int(waits.count),
            "ns": int(waits.ns),
            "bins": list(waits.bins),
            **({"bytes": int(waits.bytes)} if source in _ELSEWHERE else {}),
        }
        for source, waits in zip(SOURCES, total.stalls, strict=True)
    }


def read_programs(segment: str) -> list[dict[str, Any]]:
    """Returns a row for each program of this node that reads: its number in the job, pid and name,
    its threads that opened something, its counters, stall_ns and bytes by source, and `clock_s`,
    the time on this daemon's clock when they were read."""
    from fanstore.arrays import np
    from fanstore.trace.lanes import LaneFile

    lanes, _ = LaneFile(segment).lanes_with_ended()
    live = lanes[lanes["state"] == int(lib.FAN_LANE_LIVE)]
    clock_s = time.monotonic()
    return [
        {**_program(live[live["process"] == number]), "clock_s": clock_s}
        for number in np.unique(live["process"])
    ]


def _program(lanes: Any) -> dict[str, Any]:
    counters = lanes["counters"]
    ns, came = (counters["stalls"][name].sum(axis=0).tolist() for name in ("ns", "bytes"))
    by_source = dict(zip(SOURCES, came, strict=True))
    return {
        "number": int(lanes["process"][0]),
        "pid": int(lanes["pid"][0]),
        "name": lanes["comm"][0].tobytes().split(b"\0")[0].decode(errors="replace"),
        "threads": len(lanes),
        "counters": {name: int(counters[name].sum()) for name in _COUNTERS},
        "stall_ns": dict(zip(SOURCES, ns, strict=True)),
        "bytes": {source: by_source[source] for source in _ELSEWHERE},
    }
