"""Kept traces are read back, and damaged or hostile ones refused or read up to the damage."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import xxhash
import zstandard
from trace_files import BASE_NS, RankTrace, note, trace_bytes, write_trace

from fanstore._native import lib
from fanstore.trace import read_trace
from fanstore.trace.sections import TraceDamaged, TraceSection, encode, file_header
from fanstore.trace.tables import newest


def two_ranks() -> tuple[RankTrace, RankTrace]:
    """A small trace: two programs on rank 0, one on rank 1."""
    first, second = (RankTrace(n, f"node{n}", world_size=2) for n in range(2))
    for rank, programs in ((first, 2), (second, 1)):
        for number in range(programs):
            process = rank.process(100 + number, "python", end_ns=0 if number else 9000)
            for n in range(50):
                rank.open(process, 1000 + 10 * n, n)
            rank.stall(process, 5000, "rank", 70_001, 3)
            rank.block(process, 6000, 4, 2)
    return first, second


def test_a_trace_is_read_back(tmp_path: Path) -> None:
    trace = read_trace(write_trace(tmp_path / "t", *two_ranks()))
    assert trace.problem == ""
    assert [rank["host"] for rank in trace.ranks] == ["node0", "node1"]
    assert list(trace.processes["rank"]) == [0, 0, 1]
    assert list(trace.processes["comm"]) == [b"python"] * 3
    assert list(trace.processes["end_ns"]) == [BASE_NS + 9000, 0, BASE_NS + 9000]
    assert trace.total("opens") == len(trace.opens) == 150
    assert list(trace.opens["time_ns"][:3]) == [BASE_NS + 1000] * 3
    assert list(trace.opens["process"][:3]) == [0, 1, 2]
    assert list(trace.stalls["source"]) == [2] * 3
    assert list(trace.stalls["time_ns"]) == [BASE_NS + 5000] * 3
    assert (trace.stalls["duration_ns"] == 70_000).all()  # 16 bits of it
    assert list(trace.stall_ns()[:, 2]) == [70_001] * 3
    assert trace.counts["stalls"]["bins"][:, 2, 16].sum() == 3
    assert list(trace.blocks["block"]) == [2] * 3


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"x", b"FANTRAC\n", file_header()[:-1], bytes(1000), b"\x7fELF" * 99):
        (tmp_path / "t").write_bytes(content)
        with pytest.raises(TraceDamaged, match=f"^{tmp_path / 't'}: "):
            read_trace(tmp_path / "t")


def test_a_trace_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    other = bytearray(file_header())
    other[8] = 9
    other[56:] = xxhash.xxh3_64_intdigest(bytes(other[:56])).to_bytes(8, "little")
    (tmp_path / "t").write_bytes(bytes(other))
    with pytest.raises(TraceDamaged, match=r"a trace of version 9 .* reads version 1"):
        read_trace(tmp_path / "t")


@pytest.mark.soak
def test_a_cut_trace_is_read_up_to_the_cut(tmp_path: Path) -> None:
    whole = trace_bytes(*two_ranks())
    seen = set()
    for size in range(64, len(whole)):
        (tmp_path / "t").write_bytes(whole[:size])
        try:
            trace = read_trace(tmp_path / "t")
        except TraceDamaged:
            continue
        assert trace.problem
        seen.add(len(trace.opens))
    assert seen == {0, 100, 150}


def test_no_damaged_byte_is_taken_for_sound(tmp_path: Path) -> None:
    whole = trace_bytes(*two_ranks())
    rng = random.Random(1)
    for at in rng.sample(range(len(whole)), 400):
        broken = bytearray(whole)
        broken[at] ^= 1 << rng.randrange(8)
        (tmp_path / "t").write_bytes(bytes(broken))
        try:
            trace = read_trace(tmp_path / "t")
        except TraceDamaged:
            continue
        assert trace.problem, at
        assert len(trace.opens) in (0, 100, 150)


JOB, PROCESSES, NOTES, END = (
    int(getattr(lib, f"FAN_TRACE_{name}")) for name in ("JOB", "PROCESSES", "NOTES", "END")
)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (JOB, b"{"),
        (JOB, b"[]"),
        (JOB, b"\xff\xfe"),
        (JOB, b'{"base_realtime_ns": "x"}'),
        (JOB, b'{"base_realtime_ns": 1e400}'),
        (JOB, b'{"base_realtime_ns": 99999999999999999999999}'),
        (JOB, b'{"host": 7}'),
        (JOB, b"[" * 100_000),
        (PROCESSES, b"x" * 100),
        (NOTES, b"x" * 15),
        (NOTES, b"\xff" * 16),
        (NOTES, b"\xff" * 4096),
    ],
)
def test_sound_sections_with_nonsense_in_them_end_the_reading(
    tmp_path: Path, kind: int, content: bytes
) -> None:
    """The checksums are right: whoever wrote it meant harm."""
    first = RankTrace().sections(whole=False)
    sections = [*first, TraceSection(kind, 0, content), TraceSection(END, 0, b"")]
    (tmp_path / "t").write_bytes(file_header() + b"".join(map(encode, sections)))
    assert read_trace(tmp_path / "t").problem


def test_random_notes_and_processes_are_read_as_far_as_they_mean_something(
    tmp_path: Path,
) -> None:
    rng = random.Random(2)
    for _ in range(50):
        notes = rng.randbytes(8 * 500)
        run = (5).to_bytes(4, "little") + rng.randbytes(4) + (500).to_bytes(8, "little")
        sections = [
            TraceSection(JOB, rng.getrandbits(32), b"{}"),
            TraceSection(NOTES, 3, run + notes),
            TraceSection(PROCESSES, 3, rng.randbytes(1904 * 2)),
            TraceSection(77, 1, b"unknown"),
        ]
        (tmp_path / "t").write_bytes(file_header() + b"".join(map(encode, sections)))
        trace = read_trace(tmp_path / "t")
        assert (trace.stalls["source"] < 5).all()
        assert (trace.opens["process"] < len(trace.processes)).all()


def test_a_section_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too many"):
        encode(TraceSection(NOTES, 0, bytes(int(lib.FAN_TRACE_SECTION_BYTES_MAX) + 1)))
    sound = encode(TraceSection(NOTES, 0, b""))
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 28))
    raw = bytearray(sound[:48] + bomb)
    raw[24:32] = len(bomb).to_bytes(8, "little")
    raw[32:40] = xxhash.xxh3_64_intdigest(bomb).to_bytes(8, "little")
    raw[40:48] = xxhash.xxh3_64_intdigest(bytes(raw[:40])).to_bytes(8, "little")
    head = encode(RankTrace().sections()[0])
    (tmp_path / "t").write_bytes(file_header() + head + bytes(raw))
    assert "not as long as its header says" in read_trace(tmp_path / "t").problem


def test_a_ring_tells_what_is_not_written_yet() -> None:
    kind, lap = int(lib.FAN_NOTE_OPEN), 1 << 60
    ring = np.zeros(8, np.uint64)
    for place in range(11):  # the second round has reached place 10; 11 is taken, not written
        bit = lap if place < 8 else 0
        ring[place % 8] = note(kind, file=place) | bit
    notes = newest(ring, 4, 12)
    assert list(notes >> np.uint64(24) & np.uint64(0xFF)) == [4, 5, 6, 7, 8, 9, 10]
    assert len(newest(ring, 12, 12)) == 0
