"""Writes the job segment (csrc/format/shm_format.h), with the lanes of the access trace
(trace_format.h), and reads its counters."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from fanstore._native import ffi, lib
from fanstore.errors import FanstoreError
from fanstore.messages.figures import Counters
from fanstore.messages.message import fields_of
from fanstore.staging.room import size

MAGIC = b"FANJOBS\n"
_ALIGN_BYTES = 128
_PAGE_BYTES = 4096
_LANE_BYTES = ffi.sizeof("struct fan_lane")


@dataclass(frozen=True)
class MountEntry:
    """One mount as clients see it. Paths are absolute; places: the FAN_PLACE_* of each pack;
    damaged: record ids by pack; unchecked: packs left by an earlier job; outputs: the output tree,
    "" in jobs of several ranks; at_neighbours: packs that are not staged here, but whole at a
    neighbour; crowded: the node's packs may not fit into its memory."""

    prefix: str
    alias: str
    skeleton: str
    index_path: str
    staged_dir: str
    dataset_dir: str
    device: int
    record_count: int
    prefix_made: bool
    places: Sequence[int]
    damaged: dict[int, list[int]] = field(default_factory=dict)
    unchecked: Collection[int] = ()
    at_neighbours: Collection[int] = ()
    outputs: str = ""
    crowded: bool = False


_STRINGS = ("prefix", "alias", "skeleton", "index_path", "staged_dir", "dataset_dir", "outputs")


class _Layout:
    """Assigns aligned ranges of the segment, one behind the other."""

    def __init__(self) -> None:
        self.bytes = 0

    def take(self, size_bytes: int, align_bytes: int = _ALIGN_BYTES) -> int:
        offset = -(-self.bytes // align_bytes) * align_bytes
        self.bytes = offset + size_bytes
        return offset


def _fill_places(image: memoryview, offset: int, entry: MountEntry) -> None:
    size = ffi.sizeof("struct fan_place") * len(entry.places)
    places = ffi.from_buffer("struct fan_place[]", image[offset : offset + size])
    for pack, place in enumerate(places):
        place.state = entry.places[pack]
        place.flags = int(lib.FAN_PLACE_HAS_DAMAGE) if entry.damaged.get(pack) else 0
        place.flags |= int(lib.FAN_PLACE_HAS_UNCHECKED) if pack in entry.unchecked else 0
        place.flags |= int(lib.FAN_PLACE_AT_NEIGHBOUR) if pack in entry.at_neighbours else 0


def _fill_damage(image: memoryview, offset: int, entry: MountEntry) -> None:
    for ids in entry.damaged.values():
        for record in ids:
            image[offset + record // 8] |= 1 << record % 8


def _bitmap_bytes(entry: MountEntry) -> int:
    return (entry.record_count // 64 + 1) * 8


def _fill_mount(mount: Any, image: memoryview, layout: _Layout, entry: MountEntry) -> None:
    mount.places_offset = layout.take(ffi.sizeof("struct fan_place") * len(entry.places))
    mount.damage_offset = layout.take(_bitmap_bytes(entry))
    mount.unchecked_offset = layout.take(_bitmap_bytes(entry))
    mount.touched_offset = layout.take(_bitmap_bytes(entry))
    mount.record_count = entry.record_count
    mount.pack_count = len(entry.places)
    mount.device = entry.device
    mount.flags = int(lib.FAN_MOUNT_PREFIX_MADE) if entry.prefix_made else 0
    mount.flags |= int(lib.FAN_MOUNT_CROWDED) if entry.crowded else 0
    _fill_places(image, mount.places_offset, entry)
    _fill_damage(image, mount.damage_offset, entry)
    for name in _STRINGS:
        _put_text(getattr(mount, name), getattr(entry, name), image, layout)


def _put_text(where: Any, text: str, image: memoryview, layout: _Layout) -> None:
    coded = os.fsencode(text)
    where.bytes = len(coded)
    where.offset = layout.take(len(coded), 1)
    image[where.offset : where.offset + len(coded)] = coded


def _size_bytes(entries: Sequence[MountEntry], neighbours: Sequence[str]) -> int:
    """Returns an upper bound of the segment's size, without the trace."""
    size = 4096 + len(entries) * ffi.sizeof("struct fan_mount") + ffi.sizeof("struct fan_outputs")
    size += sum(ffi.sizeof("struct fan_shm_string") + len(os.fsencode(p)) for p in neighbours)
    for entry in entries:
        size += ffi.sizeof("struct fan_place") * len(entry.places) + 3 * _bitmap_bytes(entry)
        size += sum(len(os.fsencode(getattr(entry, name))) for name in _STRINGS)
        size += (4 + len(_STRINGS)) * _ALIGN_BYTES
    return int(size)


def _reserve(fd: int, path: str, size_bytes: int) -> None:
    """Reserves all of a file's space on the disk now: if the disk is full later, the kernel kills
    (SIGBUS) the process that first touches a missing page of the mapping."""
    try:
        os.posix_fallocate(fd, 0, size_bytes)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        space = os.fstatvfs(fd)
        raise FanstoreError(
            f"{path}: {size(size_bytes)} are needed for the job's segment, "
            f"{size(space.f_bavail * space.f_frsize)} are free: {error.strerror}; "
            "make room there, or use another --local-dir"
        ) from None


@dataclass(frozen=True)
class LaneTable:
    """The number of lanes in the access trace, and whether they hold notes or only counters."""

    count: int
    notes: bool

    def size_bytes(self) -> int:
        """Returns the space that the trace takes in the segment."""
        return int(self._lanes_bytes() + self.count * self.ring_notes * 8)

    @property
    def ring_notes(self) -> int:
        """The number of notes that a lane holds."""
        return int(lib.FAN_RING_NOTES) if self.notes else 0

    def _lanes_bytes(self) -> int:
        header = -(-ffi.sizeof("struct fan_trace") // _ALIGN_BYTES) * _ALIGN_BYTES
        return int(header + self.count * ffi.sizeof("struct fan_lane"))

    def fill(self, image: memoryview, offset: int) -> None:
        """Writes the trace's header at `offset` of the segment, and sets up the lane that threads
        share when no other is free."""
        header = ffi.new("struct fan_trace *")
        header.lanes_offset = offset + self._lanes_bytes() - self.count * _LANE_BYTES
        header.rings_offset = offset + self._lanes_bytes()
        header.lane_count = self.count
        header.ring_notes = self.ring_notes
        header.base_ns = time.monotonic_ns()
        header.base_realtime_ns = time.time_ns()
        image[offset : offset + ffi.sizeof("struct fan_trace")] = ffi.buffer(header)
        lane = ffi.new("struct fan_lane *", {"state": lib.FAN_LANE_SHARED})
        image[header.lanes_offset : header.lanes_offset + _LANE_BYTES] = ffi.buffer(lane)


def default_lanes(notes: bool = True) -> LaneTable:
    """Returns the lanes for a job on this node: four for each CPU, within bounds."""
    wanted = 4 * (os.cpu_count() or 1)
    count = max(int(lib.FAN_LANES_LEAST), min(int(lib.FAN_LANES_MOST), wanted))
    return LaneTable(count, notes)


def write_segment(
    path: str,
    entries: Sequence[MountEntry],
    daemon_pid: int,
    rank: int = 0,
    world_size: int = 1,
    lanes: LaneTable | None = None,
    neighbours: Sequence[str] = (),
) -> None:
    """Writes the segment of a job that serves `entries`. neighbours: the segments of the other
    ranks of this node. The file appears at `path` only when it is complete."""
    lanes = default_lanes() if lanes is None else lanes
    temporary = path + ".part"
    fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _reserve(fd, path, _size_bytes(entries, neighbours) + lanes.size_bytes() + 2 * _PAGE_BYTES)
        with mmap.mmap(fd, 0) as mapping, memoryview(mapping) as image:
            header = _fill(image, entries, lanes, neighbours)
            header.daemon_pid = daemon_pid
            header.rank = rank
            header.world_size = world_size
            image[: ffi.sizeof("struct fan_job_header")] = ffi.buffer(header)
            segment_bytes = int(header.segment_bytes)
        os.ftruncate(fd, segment_bytes)
    finally:
        os.close(fd)
    os.rename(temporary, path)


def _fill(
    image: memoryview, entries: Sequence[MountEntry], lanes: LaneTable, neighbours: Sequence[str]
) -> Any:
    """Writes everything except the header to the segment, and returns the header."""
    layout = _Layout()
    layout.take(ffi.sizeof("struct fan_job_header"))
    mounts_bytes = ffi.sizeof("struct fan_mount") * len(entries)
    mounts_offset = layout.take(mounts_bytes)
    mounts = ffi.new("struct fan_mount[]", len(entries))
    for mount, entry in zip(mounts, entries, strict=True):
        _fill_mount(mount, image, layout, entry)
    image[mounts_offset : mounts_offset + mounts_bytes] = ffi.buffer(mounts)

    header = ffi.new("struct fan_job_header *")
    header.magic = MAGIC
    header.version = lib.FAN_JOB_VERSION
    header.layout_id = lib.FAN_JOB_LAYOUT_ID
    header.mounts_offset = mounts_offset
    header.mount_count = len(entries)
    header.neighbours_offset = _fill_neighbours(image, layout, neighbours)
    header.neighbour_count = len(neighbours)
    if any(entry.outputs for entry in entries):
        header.outputs_offset = layout.take(ffi.sizeof("struct fan_outputs"))
    header.trace_offset = layout.take(lanes.size_bytes(), _PAGE_BYTES)
    layout.take(0, _PAGE_BYTES)
    lanes.fill(image, header.trace_offset)
    header.segment_bytes = layout.bytes
    header.state = lib.FAN_JOB_SERVING
    return header


def _fill_neighbours(image: memoryview, layout: _Layout, paths: Sequence[str]) -> int:
    """Writes the paths of the neighbours' segments. Returns the offset of the list."""
    strings = ffi.new("struct fan_shm_string[]", len(paths))
    size = ffi.sizeof(strings)
    offset = layout.take(size)
    for string, path in zip(strings, paths, strict=True):
        _put_text(string, path, image, layout)
    image[offset : offset + size] = ffi.buffer(strings) if paths else b""
    return offset


def read_counters(path: str) -> Counters:
    """Returns the counters of a segment: the sum over its lanes and over programs that have
    ended."""
    total = ffi.new("struct fan_counters *")
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        lib.fan_trace_sum(ffi.from_buffer(mapping), len(mapping), total)
    return Counters(**{name: int(getattr(total, name)) for name in fields_of(Counters)})


def read_processes(path: str) -> int:
    """Returns the number of the job's programs that have loaded the preload library."""
    offset = dict(ffi.typeof("struct fan_job_header").fields)["processes"].offset
    with open(path, "rb", buffering=0) as stream:
        stream.seek(offset)
        return int.from_bytes(stream.read(4), "little")


def read_damaged(path: str, mount: int) -> list[int]:
    """Returns the records of a mount that are marked as damaged so far, in ascending order."""
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        header = ffi.new("struct fan_job_header *")
        ffi.buffer(header)[:] = mapping[: ffi.sizeof("struct fan_job_header")]
        entry = ffi.new("struct fan_mount *")
        at = int(header.mounts_offset) + mount * ffi.sizeof("struct fan_mount")
        ffi.buffer(entry)[:] = mapping[at : at + ffi.sizeof("struct fan_mount")]
        start, size = int(entry.damage_offset), int(entry.record_count) // 8 + 1
        marks = mapping[start : start + size]
    return [
        found.start() * 8 + bit
        for found in re.finditer(rb"[^\0]", marks)
        for bit in range(8)
        if found[0][0] >> bit & 1
    ]


def mark_ended(path: str) -> None:
    """Marks the segment as ended: a program that outlives the job sees that its directory will be
    removed."""
    offset = dict(ffi.typeof("struct fan_job_header").fields)["state"].offset
    with contextlib.suppress(FileNotFoundError), open(path, "r+b", buffering=0) as stream:
        os.pwrite(stream.fileno(), int(lib.FAN_JOB_ENDED).to_bytes(4, "little"), offset)
