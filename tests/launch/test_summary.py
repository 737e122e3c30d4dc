"""The lines about a job at its end, from figures that a test makes up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fanstore.launch.report import order_lines, summary_lines
from fanstore.messages.figures import (
    Counters,
    DatasetFigures,
    MemoryFigures,
    NodeFigures,
    OrderFigures,
    OutputAccount,
)
from fanstore.messages.job import FinalStatus, JobSummary
from fanstore.messages.message import fields_of, replace, values_of

GIB = 1 << 30


def dataset(**given: Any) -> DatasetFigures:
    texts = {"name": "d", "directory": "/d", "dataset_id": "x", "mount_prefix": "/m"}
    zeros = dict.fromkeys(fields_of(DatasetFigures), 0)
    return DatasetFigures(**{
        **zeros, **texts, "in_place": False, "replicas": 1, "damaged_files": (), **given,
    })  # fmt: skip


def node(**given: Any) -> NodeFigures:
    return NodeFigures(**{**dict.fromkeys(fields_of(NodeFigures), 0), "latency_bins": [], **given})


def summary(
    world_size: int = 1,
    counters: Mapping[str, int] | None = None,
    waited_s: Mapping[str, float] | None = None,
    **given: Any,
) -> JobSummary:
    status = FinalStatus(**{
        "job_id": "a", "job_directory": "/j", "kind": "run", "rank": 0, "host": "n",
        "first_id": "a", "metrics": "", "world_size": world_size, "daemon_pid": 1, "preload": "/p",
        "started_s": 0.0, "datasets": [dataset()], "state": "serving", "removed": (),
        "counters": Counters(**{**dict.fromkeys(fields_of(Counters), 0), **(counters or {})}),
        "processes": 1, "lost_ranks": (), "node": None, "outputs": None, "trace": None,
        "order": None, "raw_calls": (), "served_s": 100.0, "waited_s": waited_s or {},
        "first_refused": "",
        "memory": MemoryFigures(limit_bytes=0, cache_bytes=0, staged_bytes=0, tables_bytes=0),
        **given,
    })  # fmt: skip
    ranks = [status] * world_size if world_size > 1 else None
    return JobSummary(**values_of(status), any_looked=True if ranks else None, ranks=ranks,
                      trace_lines=(), report=None, left=(), warnings=())  # fmt: skip


def test_what_was_served() -> None:
    served = {"opens": 12_000, "read_bytes": 50 * GIB}
    assert summary_lines(summary(counters=served)) == [
        "12,000 files opened, 50.0 GiB read in a job of 100 s"
    ]
    more = {**served, "mapped_bytes": GIB, "errors": 1}
    damaged = summary(2, counters=more, datasets=[dataset(damaged_count=3)])
    assert summary_lines(damaged)[0] == (
        "2 ranks: 24,000 files opened, 100.0 GiB read, 2.0 GiB mapped, 2 errors, 3 damaged files "
        "in a job of 100 s"
    )


def test_the_slowest_rank_says_how_long_it_took() -> None:
    job = summary(2, counters={"read_bytes": GIB})
    assert job.ranks is not None
    slow = replace(job, ranks=[job.ranks[0], replace(job.ranks[1], served_s=102.4)])
    assert "2.0 GiB read in a job of 102 s" in summary_lines(slow)[0]


def test_where_files_came_from() -> None:
    job = {"counters": {"shared_bytes": 5}, "datasets": [dataset(shared_bytes=70)]}
    read = "bytes read later from the shared file system"
    alone = summary_lines(summary(node=node(fetched_bytes=1, shared_bytes=2), **job))
    assert alone[1:] == [f"70 bytes staged at the start, 7 {read}"]
    directory = summary(node=node(shared_bytes=2))
    assert summary_lines(directory)[1:] == [f"2 {read}"]
    two = summary_lines(summary(2, node=node(fetched_bytes=30), **job))
    fetched = "60 bytes fetched from other ranks"
    assert two[1:] == [f"140 bytes staged at the start, 10 {read}, {fetched}"]


def test_refused_changes_are_counted_and_one_is_named() -> None:
    job = summary(2, counters={"refused_writes": 2})
    assert job.ranks is not None
    named = replace(job, ranks=[job.ranks[0], replace(job.ranks[1], first_refused="/m/a")])
    said = "to change files of the dataset failed{}: they are read-only; write under another name"
    assert f"4 attempts {said.format(', for example of /m/a')}" in summary_lines(named)
    one = summary(counters={"refused_writes": 1})
    assert f"1 attempt {said.format('')}" in summary_lines(one)


@pytest.mark.parametrize(
    ("waited_s", "given", "said"),
    [
        ({"disk": 1.9}, {}, None),  # less than 2 % of the time
        ({"disk": 3.0, "cache": 0.1}, {}, "waited 3.1 s, all threads together: 3 s for the local "
         "disk; a faster --local-dir, or --stage memory where there is room, would help"),
        ({"shared": 30.0}, {"node": node(shared_bytes=9, kept_bytes=4)},
         "--local-bytes and --memory-bytes with more room"),
        ({"shared": 30.0}, {"node": node(shared_bytes=9, kept_bytes=9)},  # each byte once
         "waited 30 s, all threads together: 30 s for the shared file system"),
        ({"shared": 30.0}, {"datasets": [dataset(in_place=True)]}, "without --in-place"),
        ({"cache": 30.0}, {}, "--cache-bytes"),
        ({"output": 4.0}, {}, "4 s, all threads together: 4 s for answers about outputs"),
    ],
)  # fmt: skip
def test_waits_are_told_with_the_option_that_spares_them(
    waited_s: Mapping[str, float], given: Mapping[str, Any], said: str | None
) -> None:
    lines = summary_lines(summary(waited_s=waited_s, **given))
    told = [line for line in lines if "waited" in line]
    assert len(told) == (said is not None)
    assert said is None or said in told[0]


def test_waits_of_ranks_are_summed_and_replicas_end_with_the_ranks() -> None:
    waited_s = {"rank": 20.0, "shared": 10.0, "disk": 1.0}
    lines = summary_lines(summary(2, waited_s=waited_s))
    assert lines[1] == (
        "programs waited 62 s, all threads together: 40 s for other ranks, 20 s for the shared "
        "file system; --replicas 2 would keep more of the files on their own node"
    )
    whole = summary(2, waited_s=waited_s, datasets=[dataset(replicas=2)])
    assert "--replicas" not in summary_lines(whole)[1]


def test_outputs_are_told_with_their_place() -> None:
    zeros = dict.fromkeys(fields_of(OutputAccount), 0)
    account = OutputAccount(**{**zeros, "output_dir": "/o", "published": 5, "staged": 3,
                               "staged_bytes": 6, "gone": 1})  # fmt: skip
    assert "outputs: 3 files in /o (6 bytes), 1 not placed" in summary_lines(
        summary(outputs=account)
    )


def order(predicted: int, **figures: Any) -> OrderFigures:
    whole = {"strange": 0, "refused": {}, "samplers": {"RandomSampler": 1}, **figures}
    return OrderFigures(epochs=1, predicted=predicted, broken=0, notes=(), **whole)


@pytest.mark.parametrize(
    ("late", "unread", "end"),
    [
        (0, 0, ""), (10, 100, ""),
        (11, 0, ", 11 of them late: a larger --cache-bytes gives more time"),
        (0, 110, ", 110 bytes never read: --order off would spare them"),
    ],
)  # fmt: skip
def test_late_and_unread_blocks_are_told_if_they_are_many(late: int, unread: int, end: str) -> None:
    ahead = node(ahead=100, ahead_bytes=1000, ahead_late=late, ahead_unread_bytes=unread)
    job = summary(counters={"opens": 10}, order=order(10), node=ahead)
    known, brought = order_lines([job])
    assert known == "order of reading known for 100.0 % of opens (torch RandomSampler)"
    assert brought == f"brought ahead: 1,000 bytes in 100 blocks{end}"


def test_an_order_that_told_nothing_is_not_told() -> None:
    assert order_lines([summary(counters={"opens": 3000}, order=order(1))]) == []


@pytest.mark.parametrize("misses", [20, 21])
def test_parts_of_large_files_that_no_loader_named(misses: int) -> None:
    counters = {"opens": 10, "cache_misses": misses}
    lines = order_lines([summary(counters=counters, order=order(0))])
    assert [line[:55] for line in lines] == [
        "order of reading not known: parts of large files were r"
    ] * (misses > 20)


@pytest.mark.parametrize(
    ("predicted", "figures", "why"),
    [
        (89, {"refused": {"no list": 1}}, "no list"),
        (
            50,
            {},
            "no loader named these files, such as those that a sample draws while it is read",
        ),
        (90, {"refused": {"no list": 1}}, ""),
        (30, {"samplers": {"recorded": 1}}, ""),  # nobody can do anything about that
    ],
)
def test_why_the_order_of_many_opens_was_not_known(
    predicted: int, figures: dict[str, Any], why: str
) -> None:
    job = summary(counters={"opens": 100}, order=order(predicted, **figures))
    _, *others = order_lines([job])
    assert [line.partition(";")[0] for line in others] == [
        f"order of reading not known for the others: {why}" for why in [why] if why
    ]
