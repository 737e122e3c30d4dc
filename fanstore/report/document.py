"""The figures of a report as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fanstore.report.advice import Advice
from fanstore.report.figures import RankFigures
from fanstore.report.sampled import ORIGINS, Gathered
from fanstore.report.verdict import headline
from fanstore.trace import SOURCES

Array = Any


def document(got: Gathered, advice: list[Advice]) -> dict[str, Any]:
    """Returns what a report says, for programs (docs/report.md)."""
    figures, sampled, files = got.figures, got.sampled, asdict(got.files)
    return {
        "headline": headline(figures),
        "advice": [{"sentence": each.sentence, "figures": each.figures} for each in advice],
        "problem": figures.problem,
        "lost_notes": figures.dropped,
        "job_id": figures.job_id,
        "world_size": figures.world_size,
        "start": figures.start_ns / 1e9,
        "duration_s": figures.duration_s,
        "waited_share": figures.share(),
        "ranks": [_rank(each) for each in figures.ranks],
        "waits": {
            source: {
                "count": int(figures.waits[number]),
                "seconds": float(figures.waited_ns[number]) / 1e9,
                "bytes": int(figures.stall_bytes[number]),
                "bins": figures.bins[number].tolist(),
            }
            for number, source in enumerate(SOURCES)
        },
        "time_edges_s": figures.edges_s.tolist(),
        "waited_shares": _by_source(figures.source_shares),
        "epoch_bytes": None
        if sampled.epoch_bytes is None
        else {name: sampled.epoch_bytes[:, n].tolist() for n, name in enumerate(ORIGINS)},
        "cache": [
            {"rank": line.rank, "times_s": line.times_s.tolist(), "full": line.values.tolist()}
            for line in sampled.cache
        ],
        "outputs": {
            "times_s": sampled.output_times_s.tolist(),
            "published": sampled.published.tolist(),
            "placed": sampled.placed.tolist(),
            "mean_delay_s": sampled.delay_s,
        },
        "order": None
        if got.foreseen is None
        else {**asdict(got.foreseen), "used_bytes": got.foreseen.used_bytes},
        "in_order": {str(each.rank): each.in_order for each in got.patterns},
        "hottest_directories": files.pop("hottest"),
        "longest_waits": files.pop("slowest"),
        "files": files,
    }


def _by_source(table: Array) -> dict[str, list[float]]:
    return {source: table[number].tolist() for number, source in enumerate(SOURCES)}


def _rank(rank: RankFigures) -> dict[str, Any]:
    waited_s = {source: float(rank.waited_s[number]) for number, source in enumerate(SOURCES)}
    return {
        **asdict(rank),
        "waited_share": rank.share,
        "waited_s": waited_s,
        "waited_for_s": {str(keeper): s for keeper, s in rank.waited_for_s.items() if keeper >= 0},
        "waits": rank.waits.tolist(),
        "mean_wait_s": rank.mean_wait_s.tolist(),
        "stall_bytes": rank.stall_bytes.tolist(),
        "shares": rank.shares.tolist(),
        "opens_per_s": rank.opens_per_s.tolist(),
    }
