"""Rules of advice, and the verdict, on jobs that a test describes."""

from __future__ import annotations

from pathlib import Path

import pytest
from trace_files import RankTrace, write_trace

from fanstore.report.advice import SHOWN, advise
from fanstore.report.catalogue import open_catalogue
from fanstore.report.sampled import gather
from fanstore.report.verdict import headline, percent
from fanstore.trace import SOURCES, read_trace
from fanstore.wording import duration

MS = 10**6
Waits = dict[str, tuple[int, int]]


def rank_of(
    rank: int, world_size: int, waits: Waits, epochs: int = 1, **dataset: object
) -> RankTrace:
    """A rank that opens 100 files an epoch, each after 10 ms. waits: for a source how often in all
    it waits, and how many ms; spread over the epochs."""
    made = RankTrace(rank, f"node{rank}", world_size=world_size, datasets=[dataset])
    program = made.process(1)
    now = 0
    for n in range(100 * epochs):
        now += 10 * MS
        made.open(program, now, n % 100)
        for source, (count, ms) in waits.items():
            if n * count // (100 * epochs) != (n + 1) * count // (100 * epochs):
                now += ms * MS
                made.stall(program, now, source, ms * MS, n % 100)
    return made


def said(tmp_path: Path, *ranks: RankTrace) -> tuple[str, list[str]]:
    """The headline, and the sentences of advice."""
    trace = read_trace(write_trace(tmp_path / "t", *ranks))
    with open_catalogue(trace) as datasets:
        got = gather(trace, datasets)
        return headline(got.figures), [each.sentence for each in advise(got)]


def test_a_job_without_waits_is_told_that(tmp_path: Path) -> None:
    text, advice = said(tmp_path, rank_of(0, 1, {}))
    assert text == "Reading held nobody up: programs waited 0 % of their time."
    assert advice == []


def test_a_job_that_opened_nothing_is_told_that(tmp_path: Path) -> None:
    assert said(tmp_path, RankTrace())[0] == "No program of this job opened a file of its datasets."


def test_one_slow_rank_is_named_with_its_source(tmp_path: Path) -> None:
    ranks = [rank_of(n, 4, {"disk": (20, 60 if n == 2 else 1)}) for n in range(4)]
    text, advice = said(tmp_path, *ranks)
    assert text == (
        "Rank 2 waited 55 % of its time, most of it (100 %) for the local disk, where a read takes "
        "it 60 times as long as others."
    )
    assert advice[0].startswith(
        "A wait for the local disk took rank 2 (node2) 60 ms on average, other ranks 1 ms;"
    )


def test_a_rank_whose_network_is_slow_is_named(tmp_path: Path) -> None:
    ranks = [rank_of(n, 4, {"rank": (20, 60 if n == 2 else 1)}) for n in range(4)]
    text, advice = said(tmp_path, *ranks)
    assert text == "Rank 2 waited 55 % of its time, most of it (100 %) for other ranks."
    assert "Rank 2 (node2) waited 55 %" in advice[0]


def test_two_ranks_that_wait_for_each_other_are_not_blamed(tmp_path: Path) -> None:
    ranks = [rank_of(n, 2, {"rank": (50, 10)}) for n in range(2)]
    text, _ = said(tmp_path, *ranks)
    assert text == "Both ranks waited 33 % of their time, most of it (100 %) for one another."


def test_the_rank_that_others_wait_for_is_named(tmp_path: Path) -> None:
    ranks = [
        rank_of(0, 2, {"shared": (30, 40)}),
        rank_of(1, 2, {"rank": (30, 40), "shared": (30, 1)}),
    ]
    text, advice = said(tmp_path, *ranks)
    assert text.startswith("Both ranks waited 55 % of their time")
    assert "A wait for the shared file system took rank 0 (node0) 40 ms" in advice[0]


@pytest.mark.parametrize(("other_bytes", "is_told"), [(900_000, True), (100_000, False)])
def test_a_rank_that_hardly_waited_tells_how_fast_others_read(
    tmp_path: Path, other_bytes: int, is_told: bool
) -> None:
    ranks = [rank_of(0, 2, {"shared": (30, 40)}), rank_of(1, 2, {"shared": (3, 1)})]
    for made, count in zip(ranks, (900_000, other_bytes), strict=True):
        made.counters(1)["stalls"][0, SOURCES.index("shared")]["bytes"] = count
    _, advice = said(tmp_path, *ranks)
    slow = (
        "A wait for the shared file system took rank 0 (node0) 40 ms on average, other ranks 1 ms"
    )
    assert any(each.startswith(slow) for each in advice) is is_told


@pytest.mark.parametrize(("replicas", "word"), [(1, "2"), (3, "all"), (4, None)])
def test_more_replicas_are_advised_where_there_can_be(
    tmp_path: Path, replicas: int, word: str | None
) -> None:
    packs = [list(range(replicas))] * 3
    ranks = [rank_of(n, 4, {"rank": (50, 10)}, pack_ranks=packs) for n in range(4)]
    advice = [each for each in said(tmp_path, *ranks)[1] if "--replicas" in each]
    assert len(advice) == (word is not None)
    assert word is None or f"--replicas {word} about" in advice[0]


@pytest.mark.parametrize(("epochs", "option"), [(1, "--stage full"), (4, "--local-bytes")])
def test_reads_of_the_shared_file_system(tmp_path: Path, epochs: int, option: str) -> None:
    _, [advice] = said(tmp_path, rank_of(0, 1, {"shared": (80, 20)}, epochs))
    assert option in advice


def test_a_full_cache_is_named(tmp_path: Path) -> None:
    rank = rank_of(0, 4, {"rank": (80, 20)}, 2)
    rank.sample(10**9, cache_bytes=1 << 20, cache_used_bytes=1 << 20)
    assert any("--cache-bytes of more than 1.0 MiB" in each for each in said(tmp_path, rank)[1])


def test_three_pieces_of_advice_are_shown_at_most(tmp_path: Path) -> None:
    waits = {source: (50, 10) for source in ("disk", "rank", "shared", "output")}
    ranks = [rank_of(n, 2, waits, pack_ranks=[[0], [1]]) for n in range(2)]
    assert len(said(tmp_path, *ranks)[1]) == SHOWN


def test_numbers_are_written_for_people() -> None:
    assert [percent(each) for each in (0, 0.0001, 0.043, 0.099, 0.5, 1)] == [
        "0 %", "under 0.1 %", "4.3 %", "9.9 %", "50 %", "100 %"
    ]  # fmt: skip
    assert [duration(each) for each in (0, 4e-6, 0.0213, 4.5, 90, 7300)] == [
        "0 µs", "4 µs", "21.3 ms", "4.5 s", "90 s", "2.03 h"
    ]  # fmt: skip
