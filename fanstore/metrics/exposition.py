"""A daemon's figures as Prometheus reads them. Loads prometheus_client, so: only when asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from fanstore.metrics.families import FAMILIES, LABELS, PREFIX, Family


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
