"""The documents of the metrics agree with what is exported."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from fanstore.messages.figures import Counters, MemoryFigures
from fanstore.messages.message import fields_of, replace
from fanstore.messages.watched import DiskFigures, MeasuredRank, SourceWaits
from fanstore.watch.metrics import FAMILIES, PREFIX, exposition

DOCS = Path(__file__).resolve().parents[2] / "docs"
SUFFIXES = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
NAMES = {family.full_name + suffix for family in FAMILIES for suffix in SUFFIXES[family.kind]}


def test_the_dashboard_names_metrics_that_are_there() -> None:
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text())
    queries = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    queries += [each["query"] for each in dashboard["templating"]["list"] if "query" in each]
    named = set(re.findall(rf"\b{PREFIX}\w+", " ".join(queries)))
    assert len(named) > 10
    assert named <= NAMES


def test_units_stand_at_the_ends_of_names() -> None:
    for family in FAMILIES:
        if "_bytes" in family.full_name or "_seconds" in family.full_name:
            assert re.search(r"_(bytes|seconds)(_total)?$", family.full_name), family.full_name


def figures_of(**changes: object) -> MeasuredRank:
    """The figures of a rank that has no node core and no outputs."""
    counters = Counters(**dict.fromkeys(fields_of(Counters), 0))
    memory = MemoryFigures(limit_bytes=0, cache_bytes=0, staged_bytes=0, tables_bytes=0)
    nothing = MeasuredRank(
        counters=counters, processes=1, lost_ranks=(), node=None, outputs=None, trace=None,
        order=None, raw_calls=(), memory=memory, first_id="ab", rank=3, world_size=4,
        host='odd "node"\\', daemon_pid=7, started_s=1.0, stalls={}, clock_s=1.0, up_s=1.0,
        disk=DiskFigures(size_bytes=2, free_bytes=1),
    )  # fmt: skip
    return replace(nothing, **changes)


def test_what_is_missing_in_the_figures_gives_no_sample() -> None:
    counters = replace(figures_of().counters, opens=7)
    kind, text = exposition(figures_of(counters=counters), "")
    assert kind.startswith("text/plain")
    samples = [s for f in text_string_to_metric_families(text.decode()) for s in f.samples]
    names = {sample.name.removeprefix(PREFIX) for sample in samples}
    assert not names & {"fetches_total", "cache_bytes", "outputs_published_total"}
    (opens,) = (sample for sample in samples if sample.name == "fanstore_opens_total")
    labels = {"job_id": "ab", "node": 'odd "node"\\', "rank": "3"}
    assert (opens.labels, opens.value) == (labels, 7.0)


def test_histograms_count_up_in_seconds() -> None:
    bins = [0] * 40
    bins[20], bins[30] = 5, 2  # 1 ms to 2 ms, 1 s to 2 s
    waits = {"rank": SourceWaits(count=7, ns=3_000_000_000, bins=bins, bytes=9)}
    text = exposition(figures_of(stalls=waits), "")[1].decode()
    samples = [s for f in text_string_to_metric_families(text) for s in f.samples]
    buckets = {float(s.labels["le"]): s.value for s in samples if s.name.endswith("_bucket")}
    assert [v for le, v in sorted(buckets.items()) if le in (0.00104858, 0.0041943)] == [0, 5]
    assert buckets[float("inf")] == 7
    assert [s.value for s in samples if s.name.endswith("_sum")] == [3.0]
    assert [s.value for s in samples if s.name == "fanstore_source_bytes_total"] == [9]
