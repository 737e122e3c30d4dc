"""Prometheus metrics of one rank: names, types, units, and where each lies in a daemon's figures.
Loads prometheus_client, so it is imported only when metrics are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

PREFIX = "fanstore_"
LABELS = ("job_id", "node", "rank")


@dataclass(frozen=True)
class Family:
    """One metric. figure: its keys in the figures; a figure that is missing there gives no sample.
    scale: what a figure is multiplied by to be in the metric's unit. by_source: the figure holds a
    table for each source; the key in that."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    figure: tuple[str, ...]
    scale: float = 1.0
    by_source: str = ""

    @property
    def full_name(self) -> str:
        """The name as it is scraped; of a histogram, without _bucket, _sum and _count."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


def _counter(name: str, help: str, *figure: str) -> Family:
    return Family(name, "counter", help, figure)


def _gauge(name: str, help: str, *figure: str) -> Family:
    return Family(name, "gauge", help, figure)


FAMILIES = (
    _gauge("start_time_seconds", "When the node daemon began, in seconds since 1970.", "started_s"),
    _gauge("ranks", "Ranks of the job.", "world_size"),
    _gauge("lost_ranks", "Other ranks that do not answer this one any more.", "node", "lost_ranks"),
    _counter("programs", "Programs into which the preload library came.", "processes"),
    _counter("opens", "Files of datasets that programs opened.", "counters", "opens"),
    _counter("reads", "Calls that read from such files.", "counters", "reads"),
    _counter("read_bytes", "Bytes that programs read from them.", "counters", "read_bytes"),
    _counter("stats", "Calls that asked for attributes, stat and its like.", "counters", "stats"),
    _counter("decoded_bytes", "Bytes decompressed.", "counters", "decoded_bytes"),
    _counter("mapped_bytes", "Bytes of packs that programs mapped.", "counters", "mapped_bytes"),
    _counter("directory_opens", "Directories opened.", "counters", "directory_opens"),
    _counter("errors", "Calls that failed for want of content.", "counters", "errors"),
    _counter("missing", "Names asked for that are not there.", "counters", "missing"),
    _counter("refused_writes", "Calls refused, as inputs do not change.", "counters",
             "refused_writes"),
    _counter("remote_opens", "Opens of files that lie on other ranks.", "counters", "remote_opens"),
    _counter("cache_hits", "Blocks that programs found in the block cache.", "counters",
             "cache_hits"),
    _counter("cache_misses", "Blocks that programs asked the daemon for.", "counters",
             "cache_misses"),
    _counter("cache_read_bytes", "Stored bytes that programs copied out of the block cache.",
             "counters", "remote_bytes"),
    _counter("shared_reads", "Reads of the shared file system by programs.", "counters",
             "shared_reads"),
    _counter("shared_read_bytes", "Bytes that programs read there.", "counters", "shared_bytes"),
    Family("source_bytes", "counter", "Stored bytes that programs had from elsewhere than here.",
           ("stalls",), by_source="bytes"),
    Family("stall_seconds", "histogram", "Waits of programs, by what they waited for.",
           ("stalls",), 1e-9, by_source="bins"),
    _counter("fetches", "Blocks asked of other ranks, retries included.", "node", "fetches"),
    _counter("fetched_bytes", "Bytes of blocks that other ranks sent.", "node", "fetched_bytes"),
    _counter("fetch_retries", "Fetches tried again at a further replica.", "node", "retries"),
    _counter("fetch_timeouts", "Fetches too late, or at a silent rank.", "node", "timeouts"),
    _counter("fetch_failures", "Blocks that nobody could give.", "node", "failures"),
    Family("fetch_seconds", "histogram", "Time from asking for a block to having it.",
           ("node", "latency_bins"), 1e-6),
    _counter("ahead", "Blocks brought to the block cache before programs wanted them.", "node",
             "ahead"),
    _counter("ahead_bytes", "Bytes of those.", "node", "ahead_bytes"),
    _counter("ahead_late", "Of those blocks, the ones wanted before they had come.", "node",
             "ahead_late"),
    _counter("ahead_unread_bytes", "Bytes brought for an order, and passed without a read.", "node",
             "ahead_unread_bytes"),
    _counter("daemon_shared_reads", "Reads of the shared file system by the node daemon.", "node",
             "shared_reads"),
    _counter("daemon_shared_read_bytes", "Bytes that it read there.", "node", "shared_bytes"),
    _counter("kept_bytes", "Bytes brought to the local disk while the job ran.", "node",
             "kept_bytes"),
    _counter("served_blocks", "Blocks sent to other ranks.", "node", "served"),
    _counter("served_bytes", "Bytes of those.", "node", "served_bytes"),
    _counter("cache_evictions", "Blocks that left the block cache.", "node", "evicted"),
    _gauge("cache_bytes", "Bytes in the block cache.", "node", "resident_bytes"),
    _gauge("cache_size_bytes", "Bytes that the block cache may hold.", "node", "cache_bytes"),
    _gauge("fetches_under_way", "Fetches and reads of the shared file system under way.", "node",
           "outstanding"),
    _gauge("clients", "Programs connected to the block cache.", "node", "sessions"),
    _gauge("disk_free_bytes", "Bytes free on the file system of the local directory.", "disk",
           "free_bytes"),
    _gauge("disk_size_bytes", "Size of that file system.", "disk", "size_bytes"),
    _counter("outputs_published", "Outputs finished.", "outputs", "published"),
    _counter("outputs_staged", "Outputs copied to the output directory.", "outputs", "staged"),
    _counter("outputs_staged_bytes", "Bytes of those.", "outputs", "staged_bytes"),
    _gauge("outputs_writing", "Outputs that are being written.", "outputs", "drafts"),
    _gauge("outputs_waiting", "Outputs that wait to be copied.", "outputs", "waiting"),
    _gauge("outputs_waiting_bytes", "Bytes of those.", "outputs", "waiting_bytes"),
)  # fmt: skip


class _Figures(Collector):
    def __init__(self, figures: Mapping[str, Any]) -> None:
        self._figures = figures
        self._labels = [str(figures[name]) for name in ("first_id", "host", "rank")]

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            value = _found(self._figures, family.figure)
            if value is not None:
                yield self._metric(family, value)

    def _metric(self, family: Family, value: Any) -> Metric:
        labels = [*LABELS, "source"] if family.by_source else LABELS
        made: Any = _KINDS[family.kind](PREFIX + family.name, family.help, labels=labels)
        for source, each in value.items() if family.by_source else [("", value)]:
            if family.by_source and family.by_source not in each:
                continue
            own = [*self._labels, source] if family.by_source else self._labels
            figure = each[family.by_source] if family.by_source else each
            if family.kind == "histogram":
                sum_s = each["ns"] * family.scale if family.by_source else None
                made.add_metric(own, _buckets(figure, family.scale), sum_s)
            else:
                made.add_metric(own, figure * family.scale)
        metric: Metric = made
        return metric


_FINEST_S, _COARSEST_S = 1e-5, 30.0
_KINDS: dict[str, Any] = {
    "counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily,
}  # fmt: skip


def _found(figures: Mapping[str, Any], keys: Sequence[str]) -> Any:
    found: Any = figures
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _buckets(bins: Sequence[int], scale: float) -> list[tuple[str, float]]:
    """Returns cumulative buckets of a histogram by powers of two: bins[n] holds [2^n, 2^(n+1)). Of
    the edges every second one is kept, within bounds: a scrape takes as long as it has lines."""
    edges = [(2 ** (power + 1) * scale, power + 1) for power in range(1, len(bins) - 1, 2)]
    kept = [(edge, below) for edge, below in edges if _FINEST_S <= edge <= _COARSEST_S]
    buckets = [(f"{edge:g}", float(sum(bins[:below]))) for edge, below in kept]
    return [*buckets, ("+Inf", float(sum(bins)))]


def exposition(figures: Mapping[str, Any], accept: str) -> tuple[str, bytes]:
    """Returns content type and text in the format that a request's Accept header asks for."""
    registry = CollectorRegistry()
    registry.register(_Figures(figures))
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)
