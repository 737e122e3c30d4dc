"""Predicts how fast a job is with another cache, other cores, disk or number of nodes, and which
stage limits it; and words the results of an analysis."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from fanstore.errors import UsageError
from fanstore.study.analyze.analysis import Analysis
from fanstore.study.formulas import fetch_rate, training_rate
from fanstore.wording import show_bytes

LIMITS = {
    "ingest": "GPU-bound", "prepare": "preparation-bound", "fetch": "fetch-bound",
    "cores": "bound by the cores that training and preparation share",
}  # fmt: skip
# If two stages are this close, both are named, because measured rates are no more exact.
_BORDER = 0.02


@dataclass(frozen=True)
class Hardware:
    """The hardware for a prediction, as far as it differs from the analysis. cache_bytes: of each
    node. cores: of each node. disk_bytes_per_s: of the storage, for all nodes together. None: as
    measured."""

    cache_bytes: int = 0
    cores: int | None = None
    disk_bytes_per_s: float | None = None
    nodes: int | None = None


@dataclass(frozen=True)
class Prediction:
    """Rates in samples a second. stalls: the parts of an epoch's time that training waits for
    preparation and for fetches. min_cache: the smallest part of the dataset that must be cached for
    no fetch stall. min_cores: of a node, and min_disk_bytes_per_s: enough for no stall, with the
    rest as it is; None if that alone is not enough, or G is missing."""

    samples_per_s: float
    fetch: float
    limits: tuple[str, ...]
    prepare_stall: float
    fetch_stall: float
    cached: float
    min_cache: float
    min_cores: int | None
    min_disk_bytes_per_s: float | None


def predict(analysis: Analysis, setting: Hardware) -> Prediction:
    """Predicts the speed under a setting (section 5.1). Raises UsageError if the analysis lacks the
    rates of preparation, storage or cache.

    With several nodes, each has a part of the samples in its cache, and the others read it as fast
    as their own; the storage is shared; training and preparation grow with the nodes.
    """
    lacking = [name for name in ("prepare", "storage", "cache") if name not in analysis.rates]
    if lacking:
        raise UsageError(f"the analysis has no rate of {', '.join(lacking)}; let it run to its end")
    changed = _changed(analysis, setting)
    nodes = setting.nodes or analysis.nodes
    cached = min(1.0, nodes * setting.cache_bytes / _dataset_bytes(analysis))
    cache, storage = changed.of("cache"), changed.of("storage")
    ingest, prepare = changed.of("ingest"), changed.of("prepare")
    fetch = fetch_rate(cached, cache, storage)
    together = changed.together()
    if analysis.overlap:
        unfetched = min(ingest, prepare, together)
        speed = training_rate(fetch, prepare, unfetched)
    else:
        # P includes the fetch from memory.
        unfetched = 1 / (1 / ingest + 1 / prepare)
        speed = 1 / (1 / unfetched + max(0.0, 1 / fetch - 1 / cache))
    return Prediction(
        samples_per_s=speed,
        fetch=fetch,
        limits=_limits({"ingest": ingest, "prepare": prepare, "cores": together, "fetch": fetch}),
        prepare_stall=_stall(unfetched, ingest),
        fetch_stall=_stall(speed, unfetched),
        cached=cached,
        min_cache=_min_cache(unfetched if analysis.overlap else cache, cache, storage),
        min_cores=_min_cores(changed, min(ingest, fetch)),
        min_disk_bytes_per_s=_min_disk(unfetched, cached, cache, analysis.sample_bytes),
    )


def _dataset_bytes(analysis: Analysis) -> float:
    return analysis.samples * analysis.sample_bytes


def _changed(analysis: Analysis, setting: Hardware) -> Analysis:
    cores = (setting.cores or analysis.cores) / analysis.cores
    nodes = (setting.nodes or analysis.nodes) / analysis.nodes
    changed = analysis.with_rate("prepare", analysis.of("prepare") * cores * nodes)
    for name in ("ingest", "cache"):
        if name in analysis.rates:
            changed = changed.with_rate(name, analysis.of(name) * nodes)
    if setting.disk_bytes_per_s is not None:
        changed = changed.with_rate("storage", setting.disk_bytes_per_s / analysis.sample_bytes)
    return replace(
        changed, cores=setting.cores or analysis.cores, nodes=setting.nodes or analysis.nodes
    )


def _limits(stages: dict[str, float]) -> tuple[str, ...]:
    slowest = min(stages.values())
    return tuple(name for name, rate in stages.items() if rate <= slowest * (1 + _BORDER))


def _stall(with_stage: float, without: float) -> float:
    """Returns the part of the time that a stage costs: 1 - with_stage / without."""
    return 0.0 if math.isinf(without) else max(0.0, 1 - with_stage / without)


def _min_cache(wanted: float, cache: float, storage: float) -> float:
    """Solves F(x) = wanted for x, where 1 / F(x) = x / C + (1 - x) / S (equation 4)."""
    if storage >= wanted:
        return 0.0
    if cache <= storage:
        return 1.0
    return min(1.0, (1 / storage - 1 / wanted) / (1 / storage - 1 / cache))


def _min_cores(analysis: Analysis, wanted: float) -> int | None:
    """Returns how many cores a node needs so that preparation does not limit the speed; None if G
    is missing."""
    if math.isinf(analysis.of("ingest")):
        return None
    per_core = min(analysis.of("prepare"), analysis.together()) / analysis.cores
    return math.ceil(wanted / per_core - 1e-9)


def _min_disk(wanted: float, cached: float, cache: float, sample_bytes: float) -> float | None:
    left_s = 1 / wanted - cached / cache
    if cached == 1 or left_s <= 0:
        return 0.0 if cached == 1 else None
    return (1 - cached) / left_s * sample_bytes


PREDICTED_FROM = ("prepare", "storage", "cache")


def cold(analysis: Analysis) -> Prediction | None:
    """Returns the prediction for a job without any cache; None if a rate is missing."""
    if not all(name in analysis.rates for name in PREDICTED_FROM):
        return None
    return predict(analysis, Hardware())


def lines(analysis: Analysis) -> Iterator[str]:
    """Yields the lines that tell users the result."""
    found = cold(analysis)
    if not analysis.whole:
        yield "PARTIAL: the analysis was broken off; what follows is what was measured by then"
    if found is None:
        missing = [name for name in PREDICTED_FROM if name not in analysis.rates]
        yield f"no verdict: the rates of {', '.join(missing)} are missing"
        return
    limit = " and ".join(LIMITS[name] for name in found.limits)
    yield f"without a cache the job is {limit}: {found.samples_per_s:,.1f} samples/s"
    yield from _stalls(found)
    dataset_bytes = analysis.samples * analysis.sample_bytes
    part, size = 100 * found.min_cache, show_bytes(round(found.min_cache * dataset_bytes))
    yield f"smallest cache without fetch stall: {part:.1f} % of the dataset, {size}"
    if found.min_disk_bytes_per_s:
        yield f"storage without fetch stall: {show_bytes(round(found.min_disk_bytes_per_s))}/s"
    if found.min_cores is not None:
        yield f"cores of a node without preparation stall: {found.min_cores}"


def _stalls(found: Prediction) -> Iterator[str]:
    if found.prepare_stall or found.fetch_stall:
        yield (
            f"preparation stall {100 * found.prepare_stall:.1f} % of the time, "
            f"fetch stall {100 * found.fetch_stall:.1f} %"
        )


def doubts(analysis: Analysis) -> list[str]:
    """Returns sentences with reasons to doubt the figures."""
    found = list(analysis.notes)
    if "ingest" not in analysis.rates:
        found.append("how fast the job trains was left open: no speed is above preparation's")
    return found
