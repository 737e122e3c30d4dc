"""The counts of a job's programs for its watchers: waits by source, and counts by program."""

from __future__ import annotations

import mmap
import time
from typing import Any

from fanstore._native import check, ffi, lib
from fanstore.messages.message import fields_of
from fanstore.messages.watched import ProgramCounters, ProgramFigures, SourceWaits

# The sources that programs wait for, in the order of enum fan_stall_source.
SOURCES = tuple(
    name.removeprefix("FAN_STALL_").lower()
    for _, name in sorted(ffi.typeof("enum fan_stall_source").elements.items())
    if name != "FAN_STALL_SOURCES"
)
# The sources whose bytes are counted. Bytes from a local pack have no count of their own.
_ELSEWHERE = ("cache", "rank", "shared")


def read_stalls(segment: str) -> dict[str, SourceWaits]:
    """Returns the waits of all programs, by source."""
    total = ffi.new("struct fan_counters *")
    with (
        open(segment, "rb") as stream,
        mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapping,
    ):
        check(lib.fan_trace_sum(ffi.from_buffer(mapping), len(mapping), total))
    return {
        source: SourceWaits(
            count=int(waits.count),
            ns=int(waits.ns),
            bins=list(waits.bins),
            bytes=int(waits.bytes) if source in _ELSEWHERE else None,
        )
        for source, waits in zip(SOURCES, total.stalls, strict=True)
    }


def read_programs(segment: str) -> list[ProgramFigures]:
    """Returns the programs of this node that read files of the job."""
    from fanstore.arrays import np
    from fanstore.trace.lanes import LaneFile

    lanes, _ = LaneFile(segment).lanes_with_ended()
    live = lanes[lanes["state"] == int(lib.FAN_LANE_LIVE)]
    clock_s = time.monotonic()
    return [
        _program(live[live["process"] == number], clock_s) for number in np.unique(live["process"])
    ]


def _program(lanes: Any, clock_s: float) -> ProgramFigures:
    counters = lanes["counters"]
    ns, came = (counters["stalls"][name].sum(axis=0).tolist() for name in ("ns", "bytes"))
    by_source = dict(zip(SOURCES, came, strict=True))
    return ProgramFigures(
        number=int(lanes["process"][0]),
        pid=int(lanes["pid"][0]),
        name=lanes["comm"][0].tobytes().split(b"\0")[0].decode(errors="replace"),
        threads=len(lanes),
        counters=ProgramCounters(
            **{name: int(counters[name].sum()) for name in fields_of(ProgramCounters)}
        ),
        stall_ns=dict(zip(SOURCES, ns, strict=True)),
        bytes={source: by_source[source] for source in _ELSEWHERE},
        clock_s=clock_s,
    )
