"""The command of a replay: processes that read parts of files, in the order of a job's own.

usage: python -m fanstore.study.analyze.reader LISTS OUT

LISTS: JSON, see `ReadReplay`. OUT: a directory; each process writes N-RANK.json there with a pair
[seconds, bytes read so far] for each of its reads, since one moment for all of this node, and the
file `cached-RANK.json` with the part of the packs that stayed in memory."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

PART_BYTES = 1 << 20
_GATHER_S = 0.2  # time for all processes to be forked


@dataclass(frozen=True)
class ReadReplay:
    """The input of a replay. lists: for each rank and process, pairs of a path and the number of
    the MiB to read. least_s: lists are repeated until this many seconds have passed. drop: files
    whose pages are dropped before."""

    lists: list[list[list[tuple[str, int]]]]
    least_s: float
    drop: list[str]


def _read(parts: list[tuple[str, int]], least_s: float, start_s: float) -> list[tuple[float, int]]:
    time.sleep(max(0.0, start_s - time.monotonic()))
    found, total, fd, opened = [(0.0, 0)], 0, -1, ""
    for number, (path, part) in enumerate(cycle(parts)):
        if number >= len(parts) and found[-1][0] >= least_s:
            break
        if part == 0 or path != opened:
            if fd >= 0:
                os.close(fd)
            fd, opened = os.open(path, os.O_RDONLY), path
        total += len(os.pread(fd, PART_BYTES, part * PART_BYTES))
        found.append((time.monotonic() - start_s, total))
    if fd >= 0:
        os.close(fd)
    return found


def _cached_after_drop(paths: list[str]) -> float | None:
    from fanstore.study.calibrate.extents import Extent, cached_share, drop

    worst: float | None = 0.0
    for path in paths:
        with open(path, "rb", buffering=0) as stream:
            extent = Extent(stream.fileno(), 0, os.fstat(stream.fileno()).st_size)
            drop([extent])
            share = cached_share([extent]) if extent.size else 0.0
        worst = None if share is None or worst is None else max(worst, share)
    return worst


def main() -> int:
    """Reads the lists of this rank, and returns the exit code."""
    replay = ReadReplay(**json.loads(Path(sys.argv[1]).read_text()))
    out, rank = Path(sys.argv[2]), int(os.environ.get("FANSTORE_RANK", "0"))
    cached = _cached_after_drop(replay.drop)
    (out / f"cached-{rank}.json").write_text(json.dumps(cached))
    lists = replay.lists[rank] if rank < len(replay.lists) else []
    start_s = time.monotonic() + _GATHER_S
    pids = []
    for number, parts in enumerate(lists):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                told = _read(parts, replay.least_s, start_s)
                (out / f"{number}-{rank}.json").write_text(json.dumps(told))
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    failed = [pid for pid in pids if os.waitpid(pid, 0)[1] != 0]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
