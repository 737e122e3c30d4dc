"""Prometheus metrics of one rank: names, types, units, and the figure for each. Imports
prometheus_client, so import this module only when somebody asks for metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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

from fanstore.messages.figures import NodeFigures, OutputFigures
from fanstore.messages.watched import MeasuredRank, SourceWaits

PREFIX = "fanstore_"
LABELS = ("job_id", "node", "rank")

# A number, or the bins of a histogram. None: no sample of this metric.
Value = float | Sequence[int] | None


@dataclass(frozen=True)
class MetricFamily:
    """One metric. figure: returns its value; scale: the factor from the value to the metric's unit.
    of_source: instead of `figure`, returns the value for one source of waits."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    figure: Callable[[MeasuredRank], Value] | None = None
    scale: float = 1.0
    of_source: Callable[[SourceWaits], Value] | None = None

    @property
    def full_name(self) -> str:
        """The name of the metric in a scrape; for a histogram, without _bucket, _sum and _count."""
        return PREFIX + self.name + ("_total" if self.kind == "counter" else "")


def _counter(name: str, help: str, figure: Callable[[MeasuredRank], Value]) -> MetricFamily:
    return MetricFamily(name, "counter", help, figure)


def _gauge(name: str, help: str, figure: Callable[[MeasuredRank], Value]) -> MetricFamily:
    return MetricFamily(name, "gauge", help, figure)


def _node(figure: Callable[[NodeFigures], Value]) -> Callable[[MeasuredRank], Value]:
    return lambda of: None if of.node is None else figure(of.node)


def _outputs(figure: Callable[[OutputFigures], Value]) -> Callable[[MeasuredRank], Value]:
    return lambda of: None if of.outputs is None else figure(of.outputs)


FAMILIES = (
    _gauge("start_time_seconds", "When the node daemon began, in seconds since 1970.",
           lambda of: of.started_s),
    _gauge("ranks", "Ranks of the job.", lambda of: of.world_size),
    _gauge("lost_ranks", "Other ranks that do not answer this one any more.",
           _node(lambda of: of.lost_ranks)),
    _counter("programs", "Programs into which the preload library came.", lambda of: of.processes),
    _counter("opens", "Files of datasets that programs opened.", lambda of: of.counters.opens),
    _counter("reads", "Calls that read from such files.", lambda of: of.counters.reads),
    _counter("read_bytes", "Bytes that programs read from them.",
             lambda of: of.counters.read_bytes),
    _counter("stats", "Calls that asked for attributes, stat and its like.",
             lambda of: of.counters.stats),
    _counter("decoded_bytes", "Bytes decompressed.", lambda of: of.counters.decoded_bytes),
    _counter("mapped_bytes", "Bytes of packs that programs mapped.",
             lambda of: of.counters.mapped_bytes),
    _counter("directory_opens", "Directories opened.", lambda of: of.counters.directory_opens),
    _counter("errors", "Calls that failed for want of content.", lambda of: of.counters.errors),
    _counter("missing", "Names asked for that are not there.", lambda of: of.counters.missing),
    _counter("refused_writes", "Calls refused, as inputs do not change.",
             lambda of: of.counters.refused_writes),
    _counter("remote_opens", "Opens of files that lie on other ranks.",
             lambda of: of.counters.remote_opens),
    _counter("cache_hits", "Blocks that programs found in the block cache.",
             lambda of: of.counters.cache_hits),
    _counter("cache_misses", "Blocks that programs asked the daemon for.",
             lambda of: of.counters.cache_misses),
    _counter("cache_read_bytes", "Stored bytes that programs copied out of the block cache.",
             lambda of: of.counters.remote_bytes),
    _counter("shared_reads", "Reads of the shared file system by programs.",
             lambda of: of.counters.shared_reads),
    _counter("shared_read_bytes", "Bytes that programs read there.",
             lambda of: of.counters.shared_bytes),
    MetricFamily("source_bytes", "counter",
                 "Stored bytes that programs had from elsewhere than here.",
                 of_source=lambda of: of.bytes),
    MetricFamily("stall_seconds", "histogram", "Waits of programs, by what they waited for.",
                 scale=1e-9, of_source=lambda of: of.bins),
    _counter("fetches", "Blocks asked of other ranks, retries included.",
             _node(lambda of: of.fetches)),
    _counter("fetched_bytes", "Bytes of blocks that other ranks sent.",
             _node(lambda of: of.fetched_bytes)),
    _counter("fetch_retries", "Fetches tried again at a further replica.",
             _node(lambda of: of.retries)),
    _counter("fetch_timeouts", "Fetches too late, or at a silent rank.",
             _node(lambda of: of.timeouts)),
    _counter("fetch_failures", "Blocks that nobody could give.", _node(lambda of: of.failures)),
    MetricFamily("fetch_seconds", "histogram", "Time from asking for a block to having it.",
                 _node(lambda of: of.latency_bins), 1e-6),
    _counter("ahead", "Blocks brought to the block cache before programs wanted them.",
             _node(lambda of: of.ahead)),
    _counter("ahead_bytes", "Bytes of those.", _node(lambda of: of.ahead_bytes)),
    _counter("ahead_late", "Of those blocks, the ones wanted before they had come.",
             _node(lambda of: of.ahead_late)),
    _counter("ahead_unread_bytes", "Bytes brought for an order, and passed without a read.",
             _node(lambda of: of.ahead_unread_bytes)),
    _counter("daemon_shared_reads", "Reads of the shared file system by the node daemon.",
             _node(lambda of: of.shared_reads)),
    _counter("daemon_shared_read_bytes", "Bytes that it read there.",
             _node(lambda of: of.shared_bytes)),
    _counter("kept_bytes", "Bytes brought to the local disk while the job ran.",
             _node(lambda of: of.kept_bytes)),
    _counter("served_blocks", "Blocks sent to other ranks.", _node(lambda of: of.served)),
    _counter("served_bytes", "Bytes of those.", _node(lambda of: of.served_bytes)),
    _counter("cache_evictions", "Blocks that left the block cache.", _node(lambda of: of.evicted)),
    _gauge("cache_bytes", "Bytes in the block cache.", _node(lambda of: of.resident_bytes)),
    _gauge("cache_size_bytes", "Bytes that the block cache may hold.",
           _node(lambda of: of.cache_bytes)),
    _gauge("fetches_under_way", "Fetches and reads of the shared file system under way.",
           _node(lambda of: of.outstanding)),
    _gauge("clients", "Programs connected to the block cache.", _node(lambda of: of.sessions)),
    _gauge("disk_free_bytes", "Bytes free on the file system of the local directory.",
           lambda of: of.disk.free_bytes),
    _gauge("disk_size_bytes", "Size of that file system.", lambda of: of.disk.size_bytes),
    _counter("outputs_published", "Outputs finished.", _outputs(lambda of: of.published)),
    _counter("outputs_staged", "Outputs copied to the output directory.",
             _outputs(lambda of: of.staged)),
    _counter("outputs_staged_bytes", "Bytes of those.", _outputs(lambda of: of.staged_bytes)),
    _gauge("outputs_writing", "Outputs that are being written.", _outputs(lambda of: of.drafts)),
    _gauge("outputs_waiting", "Outputs that wait to be copied.", _outputs(lambda of: of.waiting)),
    _gauge("outputs_waiting_bytes", "Bytes of those.", _outputs(lambda of: of.waiting_bytes)),
)  # fmt: skip


class _Figures(Collector):
    def __init__(self, figures: MeasuredRank) -> None:
        self._figures = figures
        self._labels = [figures.first_id, figures.host, str(figures.rank)]

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            if family.of_source is not None:
                yield self._by_source(family, family.of_source)
            elif family.figure is not None:
                value = family.figure(self._figures)
                if value is not None:
                    made = _made(family, LABELS)
                    _add(made, self._labels, value, family.scale, None)
                    yield made

    def _by_source(self, family: MetricFamily, figure: Callable[[SourceWaits], Value]) -> Metric:
        made = _made(family, (*LABELS, "source"))
        for source, waits in self._figures.stalls.items():
            value = figure(waits)
            if value is not None:
                sum_s = waits.ns * family.scale
                _add(made, [*self._labels, source], value, family.scale, sum_s)
        return made


_FINEST_S, _COARSEST_S = 1e-5, 30.0
_KINDS: Mapping[str, type[Any]] = {
    "counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily,
}  # fmt: skip


def _made(family: MetricFamily, labels: Sequence[str]) -> Metric:
    metric: Metric = _KINDS[family.kind](PREFIX + family.name, family.help, labels=labels)
    return metric


def _add(
    metric: Any, labels: Sequence[str], value: float | Sequence[int], scale: float,
    sum_s: float | None,
) -> None:  # fmt: skip
    """Adds a sample. sum_s: the sum of a histogram's waits, if it is known."""
    if isinstance(value, Sequence):
        metric.add_metric(labels, _buckets(value, scale), sum_s)
    else:
        metric.add_metric(labels, value * scale)


def _buckets(bins: Sequence[int], scale: float) -> list[tuple[str, float]]:
    """Returns the cumulative buckets of a histogram whose bins[n] counts values from 2^n to
    2^(n+1). Uses every second edge, within bounds, because a scrape takes longer with more
    lines."""
    edges = [(2 ** (power + 1) * scale, power + 1) for power in range(1, len(bins) - 1, 2)]
    kept = [(edge, below) for edge, below in edges if _FINEST_S <= edge <= _COARSEST_S]
    buckets = [(f"{edge:g}", float(sum(bins[:below]))) for edge, below in kept]
    return [*buckets, ("+Inf", float(sum(bins)))]


def exposition(figures: MeasuredRank, accept: str) -> tuple[str, bytes]:
    """Returns the content type and the text of a scrape, in the format that the request's Accept
    header asks for."""
    registry = CollectorRegistry()
    registry.register(_Figures(figures))
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)
