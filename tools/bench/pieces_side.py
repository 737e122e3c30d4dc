"""Rank 1 of a job of pieces.py: reads a large file of rank 0 at random places, and short files of
rank 0, and prints what each read took and how many bytes it brought.

    pieces_side.py SIZE READS

Prints JSON: the median time in nanoseconds of a read of SIZE bytes of the large file, the same of
an open, read and close of a file of SIZE bytes, and of an mmap of the large file with one page
touched; the bytes brought for each byte read; then nanoseconds for each MiB of another large file
that is read from front to back, and bytes brought for each byte."""

from __future__ import annotations

import json
import mmap
import os
import random
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

PART_BYTES = 1 << 20
MAPS = 10

T = TypeVar("T")


def brought_bytes() -> int:
    """Returns how many bytes this node has brought so far from other ranks or the shared file
    system."""
    with socket.socket(socket.AF_UNIX) as stream:
        job = os.open(os.environ["FANSTORE_JOB_DIR"], os.O_PATH)
        stream.connect(f"/proc/self/fd/{job}/sock")
        os.close(job)
        stream.sendall(b'{"op": "status"}\n')
        with stream.makefile() as lines:
            node = json.loads(lines.readline())["node"]
    return int(node["fetched_bytes"]) + int(node["shared_bytes"])


def median_ns(read: Callable[[T], None], items: Iterable[T]) -> float:
    """Returns the median time of `read` of each item."""
    times = []
    for item in items:
        start_ns = time.perf_counter_ns()
        read(item)
        times.append(time.perf_counter_ns() - start_ns)
    return statistics.median(times)


def measure(mount: Path, size: int, reads: int) -> dict[str, float]:
    """Returns the figures by name."""
    large = os.open(mount / "large" / "random", os.O_RDONLY)
    places = random.Random(1)
    offsets = [places.randrange(size, os.fstat(large).st_size - size) for _ in range(reads)]
    buffer = bytearray(max(size, PART_BYTES))
    part = memoryview(buffer)[:size]
    before = brought_bytes()
    random_ns = median_ns(lambda offset: os.preadv(large, [part], offset), offsets)
    random_bytes = brought_bytes() - before

    def read_file(path: Path) -> None:
        fd = os.open(path, os.O_RDONLY)
        os.readv(fd, [part])
        os.close(fd)

    file_ns = median_ns(read_file, sorted((mount / str(size)).iterdir()))

    def touch(offset: int) -> None:
        with mmap.mmap(large, 0, prot=mmap.PROT_READ) as mapping:
            assert len(mapping[offset : offset + 1]) == 1

    map_ns = median_ns(touch, offsets[:MAPS])
    before, start_ns, done = brought_bytes(), time.perf_counter_ns(), 0
    with open(mount / "large" / "sequence", "rb", buffering=0) as sequence:
        while count := sequence.readinto(buffer):
            done += count
    sequence_ns = time.perf_counter_ns() - start_ns
    return {
        "random_ns": random_ns,
        "file_ns": file_ns,
        "random_ratio": random_bytes / (size * reads),
        "map_ns": map_ns,
        "sequence_ns": sequence_ns / done * PART_BYTES,
        "sequence_ratio": (brought_bytes() - before) / done,
    }


if __name__ == "__main__":
    if os.environ["FANSTORE_RANK"] == "1":
        prefix = Path(os.environ["FANSTORE_MOUNT_PREFIX"])
        print(json.dumps(measure(prefix, int(sys.argv[1]), int(sys.argv[2]))))
