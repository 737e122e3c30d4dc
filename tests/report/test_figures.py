"""Figures of hand-made traces, whose answers are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trace_files import RankTrace, write_trace

from fanstore.report.epochs import covered_before, epoch_starts, lone_begins
from fanstore.report.figures import BINS
from fanstore.report.sampled import Gathered, gather, patterns
from fanstore.trace import SOURCES, read_trace

SECOND = 10**9


def gathered(path: Path, *ranks: RankTrace) -> Gathered:
    """What a report says of some ranks, without an index."""
    return gather(read_trace(write_trace(path / "t", *ranks)), [])


def test_overlapping_waits_count_once() -> None:
    begins, ends = np.array([0, 2, 3, 20, 0]), np.array([10, 5, 15, 30, 7])
    lone = lone_begins(begins, ends, np.array([1, 1, 1, 1, 2]))
    assert list(lone) == [0, 5, 10, 20, 0]
    assert (ends - lone)[:4].sum() == 25  # 0 to 15 and 20 to 30
    assert len(lone_begins(begins[:0], ends[:0], begins[:0])) == 0


def test_intervals_are_spread_over_bins() -> None:
    before = covered_before(np.array([0, 15]), np.array([10, 35]), np.array([0, 10, 20, 30, 40]))
    assert list(np.diff(before)) == [10, 5, 10, 5]


@pytest.mark.parametrize(
    ("files", "starts"),
    [
        ([], []),
        ([7], [0]),
        ([1, 2, 3], [0]),
        ([1, 2, 3, 3, 1, 2, 2, 3, 1], [0, 3, 6]),
        ([9, 1, 2, 9, 3, 9, 4, 9, 1, 2, 9, 3, 9, 4, 9], [0, 8]),  # 9: a list of labels
    ],
)
def test_epochs_begin_where_files_come_again(files: list[int], starts: list[int]) -> None:
    assert epoch_starts(np.array(files, np.int64)) == starts


def test_epochs_of_a_shuffled_share_are_found() -> None:
    """Each epoch a rank of eight reads another eighth: one open in eight is a repeat."""
    random = np.random.default_rng(1)
    epochs = [random.permutation(16_000)[:2000] for _ in range(4)]
    starts = epoch_starts(np.concatenate(epochs))
    assert len(starts) == 4
    assert all(abs(start - 2000 * n) < 150 for n, start in enumerate(starts))


def test_files_that_are_opened_twice_make_no_epoch() -> None:
    random = np.random.default_rng(3)
    files = np.concatenate([np.repeat(random.permutation(1000), 2) for _ in range(3)])
    assert epoch_starts(files) == [0, 2000, 4000]


def test_workers_that_run_ahead_make_no_epoch() -> None:
    random = np.random.default_rng(2)
    files = np.concatenate([random.permutation(5000) for _ in range(3)])
    blurred = files[np.argsort(np.arange(len(files)) + random.normal(0, 100, len(files)))]
    starts = epoch_starts(blurred)
    assert len(starts) == 3
    assert all(abs(start - 5000 * n) < 300 for n, start in enumerate(starts))


def one_rank() -> RankTrace:
    """Ten seconds of two epochs of four files; 2 s of waits for another rank, 1 s for the disk."""
    rank = RankTrace(0, world_size=2)
    program = rank.process(1, start_ns=SECOND)
    for n in range(8):
        rank.open(program, (1 + n) * SECOND, n % 4)
        if n == 3:
            rank.stall(program, 4 * SECOND, "rank", 2 * SECOND, 2)
    rank.stall(program, 11 * SECOND, "disk", SECOND, 3)
    return rank


def test_shares_are_of_the_time_of_readers(tmp_path: Path) -> None:
    figures = gathered(tmp_path, one_rank()).figures
    [rank] = figures.ranks
    assert rank.active_s == pytest.approx(10, abs=0.01)
    assert dict(zip(SOURCES, rank.waited_s, strict=True)) == pytest.approx(
        {"disk": 1, "cache": 0, "rank": 2, "shared": 0, "output": 0}, rel=1e-3
    )
    assert rank.share == pytest.approx(0.3, rel=0.01)
    assert rank.epoch_starts_s == pytest.approx([0, 4], abs=0.01)
    # 2 s of the first 4 s; 1 s of the other 6 s
    assert rank.epoch_shares == pytest.approx([0.5, 1 / 6], rel=0.01)
    width_s = figures.duration_s / BINS
    waited_s = (figures.source_shares * width_s).sum(axis=1)
    assert waited_s == pytest.approx(rank.waited_s, rel=1e-3)
    assert (rank.opens_per_s * width_s).sum() == pytest.approx(8)


def test_programs_that_hardly_read_are_no_readers(tmp_path: Path) -> None:
    rank = one_rank()
    for n in range(200):
        rank.open(1, 9 * SECOND + n, 4 + n)
    other = rank.process(2, "main", start_ns=0)
    rank.open(other, 30 * SECOND, 0)
    [found] = gathered(tmp_path, rank).figures.ranks
    assert (found.programs, found.readers) == (2, 1)
    assert found.active_s == pytest.approx(10, abs=0.01)


def test_of_two_ranks_each_waits_for_the_other(tmp_path: Path) -> None:
    second = RankTrace(1, world_size=2)
    second.open(second.process(5, start_ns=SECOND), 2 * SECOND, 1)
    figures = gathered(tmp_path, one_rank(), second).figures
    assert figures.ranks[0].waited_for_s == pytest.approx({1: 2.0}, rel=1e-3)


def test_bytes_of_an_epoch_come_from_samples(tmp_path: Path) -> None:
    rank = one_rank()  # its epochs begin at 1 s and at 5 s
    for at_s, read, shared in ((1, 0, 0), (5, 4000, 3000), (11, 12000, 3000)):
        stall_bytes = [0, 0, 0, shared, 0]
        rank.sample(at_s * SECOND, read_bytes=read, stall_bytes=stall_bytes, opens=8)
    epochs = gathered(tmp_path, rank).sampled.epoch_bytes
    assert epochs is not None
    assert np.round(epochs).tolist() == [[1000, 0, 0, 3000], [8000, 0, 0, 0]]


def test_delay_of_outputs_comes_from_samples(tmp_path: Path) -> None:
    rank = one_rank()
    counts = ((1, 0, 0), (2, 10, 0), (4, 10, 0), (5, 10, 10), (9, 10, 10))
    for at_s, published, placed in counts:
        rank.sample(at_s * SECOND, published=published, placed=placed, cache_bytes=100,
                    cache_used_bytes=10 * at_s)  # fmt: skip
    sampled = gathered(tmp_path, rank).sampled
    assert sampled.delay_s == pytest.approx(3.0)
    assert sampled.cache_fill == pytest.approx(0.9)


@pytest.mark.parametrize(("shuffled", "in_order"), [(False, 1.0), (True, 0.0)])
def test_reading_in_order_is_told_from_shuffling(
    tmp_path: Path, shuffled: bool, in_order: float
) -> None:
    rank = RankTrace()
    program = rank.process(1)
    for n in range(400):
        rank.open(program, n * SECOND // 100, n if not shuffled else n * 199 % 400)
    trace = read_trace(write_trace(tmp_path / "t", rank))
    [pattern] = patterns(trace, [], gather(trace, []).figures)
    assert pattern.in_order == pytest.approx(in_order, abs=0.01)
    assert pattern.density.sum() == 400


def test_a_trace_of_nothing_has_figures(tmp_path: Path) -> None:
    for ranks in ([RankTrace()], [RankTrace(0), RankTrace(1)]):
        got: Any = gathered(tmp_path, *ranks)
        assert got.figures.share() == 0
        assert got.figures.epochs == 0
