"""The documents of the metrics agree with what is exported."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from fanstore.watch.metrics import FAMILIES, PREFIX, exposition

DOCS = Path(__file__).resolve().parents[2] / "docs"
SUFFIXES = {"counter": [""], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
NAMES = {family.full_name + suffix for family in FAMILIES for suffix in SUFFIXES[family.kind]}


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    page = (DOCS / "monitoring.md").read_text()
    rows = re.findall(rf"^\| `({PREFIX}\w+)` \| (\w+) \| (.*) \|$", page, re.MULTILINE)
    assert rows == [(each.full_name, each.kind, each.help) for each in FAMILIES]


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


def test_what_is_missing_in_the_figures_gives_no_sample() -> None:
    figures = {"first_id": "ab", "host": 'odd "node"\\', "rank": 3, "counters": {"opens": 7}}
    kind, text = exposition(figures, "")
    assert kind.startswith("text/plain")
    (family,) = text_string_to_metric_families(text.decode())
    (sample,) = family.samples
    labels = {"job_id": "ab", "node": 'odd "node"\\', "rank": "3"}
    assert (sample.name, sample.labels, sample.value) == ("fanstore_opens_total", labels, 7.0)


def test_histograms_count_up_in_seconds() -> None:
    bins = [0] * 40
    bins[20], bins[30] = 5, 2  # 1 ms to 2 ms, 1 s to 2 s
    waits = {"rank": {"count": 7, "ns": 3_000_000_000, "bins": bins, "bytes": 9}}
    figures = {"first_id": "ab", "host": "n", "rank": 0, "stalls": waits}
    text = exposition(figures, "")[1].decode()
    samples = [s for f in text_string_to_metric_families(text) for s in f.samples]
    buckets = {float(s.labels["le"]): s.value for s in samples if s.name.endswith("_bucket")}
    assert [v for le, v in sorted(buckets.items()) if le in (0.00104858, 0.0041943)] == [0, 5]
    assert buckets[float("inf")] == 7
    assert [s.value for s in samples if s.name.endswith("_sum")] == [3.0]
    assert [s.value for s in samples if s.name == "fanstore_source_bytes_total"] == [9]
