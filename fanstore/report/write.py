"""Writes the files of a report: the figures as JSON, the page and the trace. Each appears only when
it is complete."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fanstore.atomic import whole_file
from fanstore.report.advice import Advice, advise
from fanstore.report.catalogue import open_catalogue
from fanstore.report.figures import RankFigures
from fanstore.report.places import can_draw
from fanstore.report.sampled import ORIGINS, Gathered, gather
from fanstore.report.verdict import headline
from fanstore.trace import SOURCES, read_trace

Array = Any


def document(got: Gathered, advice: list[Advice]) -> dict[str, Any]:
    """Returns the JSON content of a report (docs/report.md)."""
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
        "buckets": got.buckets,
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


def figures_of(trace: str | os.PathLike[str], directories: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the figures of a kept trace, as in the JSON. directories: the present directories of
    the datasets, in the job's order, if they were moved. Raises FanstoreError or OSError."""
    read = read_trace(trace)
    with open_catalogue(read, directories) as datasets:
        got = gather(read, datasets)
        return document(got, advise(got))


def write_report(
    trace: str | os.PathLike[str], page: Path, directories: Sequence[str] = ()
) -> list[Path]:
    """Writes the report of a kept trace: a JSON file and, if matplotlib is installed, a page.
    Returns the paths of both. Raises FanstoreError or OSError."""
    read = read_trace(trace)
    with open_catalogue(read, directories) as datasets:
        got = gather(read, datasets)
        texts = _texts(got, page)
    page.parent.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        with whole_file(path, force=True) as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
    return list(texts)


def _texts(got: Gathered, page: Path) -> dict[Path, str]:
    advice = advise(got)
    made = {page.with_suffix(".json"): json.dumps(document(got, advice), indent=1) + "\n"}
    if can_draw():
        from fanstore.report.page import page_of

        made = {page: page_of(got, advice), **made}
    return made
