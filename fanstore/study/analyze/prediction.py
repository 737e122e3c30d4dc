"""Predicts how fast a job is with other hardware or settings, and which stage limits it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fanstore.errors import UsageError
from fanstore.study.analyze.analysis import Analysis
from fanstore.study.formulas import fetch_rate

PREDICTED_FROM = ("prepare", "storage", "cache")
# If two stages are this close, both are named, because measured rates are no more exact.
_BORDER = 0.02
_BUSY = 0.9  # of the cores' time; then more workers prepare no faster
# The room for files that pass through, beside the block cache (docs/prefetch.md).
_PASSING_SHARE, _PASSING_BYTES = 32, 2 << 20


@dataclass(frozen=True)
class Hardware:
    """The hardware and settings for a prediction, as far as they differ from the analysis.
    cache_bytes: the block cache of each node. local_bytes: how much of the dataset each node keeps
    on its disk. cores, workers: of each node. storage_bytes_per_s: for all nodes together.
    training: how many times as fast as measured. codec: of the dataset, none (as measured) or zstd.
    jobs: how many such jobs share a node, each with a cache and files as above; coordinated: on if
    they prepare each sample once for all, else off. None: as measured."""

    cache_bytes: int = 0
    local_bytes: int = 0
    cores: int | None = None
    workers: int | None = None
    storage_bytes_per_s: float | None = None
    nodes: int | None = None
    training: float = 1.0
    codec: str = "none"
    jobs: int = 1
    coordinated: str = "off"


@dataclass(frozen=True)
class Prediction:
    """Rates in samples a second. stalls: the parts of an epoch's time that training waits for
    preparation and for fetches. kept: the part of the dataset on disks and in caches. The rest is
    enough for no stall, with everything else as it is; None if that alone is not enough, or G is
    missing. min_kept: the part of the dataset to keep. min_workers, min_cores: of a node.
    min_storage_bytes_per_s: of the storage."""

    samples_per_s: float
    limits: tuple[str, ...]
    prepare_stall: float
    fetch_stall: float
    kept: float
    min_kept: float
    min_workers: int | None
    min_cores: int | None
    min_storage_bytes_per_s: float | None


def predict(analysis: Analysis, setting: Hardware) -> Prediction:
    """Predicts the speed under a setting (section 5.1 of the paper, and docs/analyze.md). Raises
    UsageError if the analysis lacks the rates of preparation, storage or cache.

    With several nodes, each keeps a part of the samples, and the others read it as fast as their
    own; the storage is shared; training and preparation grow with the nodes.
    """
    lacking = [name for name in PREDICTED_FROM if name not in analysis.rates]
    if lacking:
        raise UsageError(f"the analysis has no rate of {', '.join(lacking)}; let it run to its end")
    changed = _changed(analysis, setting)
    loaders = 1 if setting.coordinated == "on" else setting.jobs
    unfetched = _held_back(analysis) * _without_fetches(changed, setting.jobs, loaders)
    kept = _kept(changed, setting)
    cache, storage = changed.of("cache"), changed.of("storage")
    fetch = fetch_rate(kept, cache, storage)
    speed = min(unfetched, fetch)
    now_bytes_per_s = setting.storage_bytes_per_s or analysis.of("storage") * analysis.sample_bytes
    ingest = changed.of("ingest")
    return Prediction(
        samples_per_s=speed,
        limits=_limits(changed, fetch, unfetched),
        prepare_stall=0.0 if ingest == math.inf else max(0.0, speed / unfetched - speed / ingest),
        fetch_stall=max(0.0, 1 - speed / unfetched),
        kept=kept,
        min_kept=_min_kept(unfetched, cache, storage),
        min_workers=_min_workers(changed, min(ingest, fetch)),
        min_cores=_min_cores(changed, min(ingest, fetch)),
        min_storage_bytes_per_s=_min_storage(unfetched, kept, cache, now_bytes_per_s / storage),
    )


def _kept(analysis: Analysis, setting: Hardware) -> float:
    """Returns the part of the dataset that is on disks and in caches when it is read. A block cache
    that knows the order keeps, on a node alone, also the last files that passed through."""
    dataset_bytes = analysis.samples * analysis.sample_bytes
    if setting.codec == "zstd" and analysis.compression:
        dataset_bytes /= analysis.compression["ratio"]
    kept_bytes = analysis.nodes * (setting.local_bytes + setting.cache_bytes)
    if analysis.nodes == 1 and setting.cache_bytes:
        kept_bytes += max(_PASSING_BYTES, setting.cache_bytes // _PASSING_SHARE)
    return min(1.0, kept_bytes / dataset_bytes)


def _without_fetches(analysis: Analysis, jobs: int = 1, loaders: int = 1) -> float:
    ingest, prepare = analysis.of("ingest"), analysis.of("prepare")
    if analysis.workers == 0:
        return 1 / (1 / ingest + 1 / prepare)
    return min(ingest, prepare, analysis.together(jobs, loaders))


def _held_back(analysis: Analysis) -> float:
    """Returns the part of the speed of its slowest stage that the job reached from memory."""
    memory, expected = analysis.rates.get("memory"), _without_fetches(analysis)
    return memory.samples_per_s / expected if memory and memory.high < expected else 1.0


def _changed(analysis: Analysis, setting: Hardware) -> Analysis:
    """Returns the analysis with the rates, cores, workers and nodes of a setting."""
    cores, nodes = setting.cores or analysis.cores, setting.nodes or analysis.nodes
    times = nodes / analysis.nodes
    workers = setting.workers
    if workers is None and analysis.workers is not None:
        workers = math.ceil(analysis.workers * cores / analysis.cores)
    packed = _compressed(analysis) if setting.codec == "zstd" else analysis
    storage = setting.storage_bytes_per_s
    rates = {
        "ingest": analysis.of("ingest") * setting.training * times,
        "prepare": _prepared(packed, cores, workers) * times,
        "cache": analysis.of("cache") * times,
        "storage": storage / analysis.sample_bytes if storage else analysis.of("storage"),
    }
    if setting.codec == "zstd" and analysis.compression:
        rates["storage"] *= analysis.compression["ratio"]
    if setting.coordinated == "off":
        rates["prepare"] /= setting.jobs
        rates["storage"] /= setting.jobs
    changed = replace(packed, cores=cores, nodes=nodes, workers=workers)
    for name, rate in rates.items():
        changed = changed.with_rate(name, rate)
    return changed


def _compressed(analysis: Analysis) -> Analysis:
    """Returns the analysis if workers also decompress what they read."""
    if analysis.compression is None:
        raise UsageError("the dataset is compressed already, or empty")
    decode_s = analysis.sample_bytes / analysis.compression["decode_bytes_per_s"]
    hands = min(analysis.cores, max(1, analysis.workers or 1)) * analysis.nodes
    changed = analysis.with_rate("prepare", 1 / (1 / analysis.of("prepare") + decode_s / hands))
    took_s = {
        name: each + decode_s * (name == "prepare") for name, each in analysis.processor_s.items()
    }
    return replace(changed, processor_s=took_s)


def _prepared(analysis: Analysis, cores: int, workers: int | None) -> float:
    """Returns the rate of preparation with other cores and workers: workers add up until all cores
    are busy."""
    prepare, before = analysis.of("prepare"), max(1, analysis.workers or 1)
    if workers is None:
        return prepare * cores / analysis.cores
    after = max(1, workers)
    took_s = analysis.processor_s.get("prepare", 0.0) / analysis.nodes
    if prepare * took_s > _BUSY * analysis.cores:
        return prepare * min(cores, after) / min(analysis.cores, before)
    found = prepare * after / before
    return min(found, cores / took_s) if took_s else found


def _limits(analysis: Analysis, fetch: float, unfetched: float) -> tuple[str, ...]:
    stages = {
        "ingest": analysis.of("ingest"), "prepare": analysis.of("prepare"),
        "cores": analysis.together(),
    }  # fmt: skip
    most = min(stages.values()) * (1 + _BORDER)
    waits = fetch < unfetched * (1 - _BORDER)
    found = [] if waits else [name for name, rate in stages.items() if rate <= most]
    if fetch <= unfetched * (1 + _BORDER):
        found.append("fetch")
    return tuple(found)


def _min_kept(wanted: float, cache: float, storage: float) -> float:
    """Solves F(x) = wanted for x, where 1 / F(x) = x / C + (1 - x) / S (equation 4)."""
    if storage >= wanted:
        return 0.0
    if cache <= storage:
        return 1.0
    return min(1.0, (1 / storage - 1 / wanted) / (1 / storage - 1 / cache))


def _min_storage(wanted: float, kept: float, cache: float, sample_bytes: float) -> float | None:
    """Returns the bytes per second of a storage with which fetches reach a rate, else None.
    sample_bytes: what storage gives to all jobs for a sample of one."""
    if kept == 1:
        return 0.0
    left_s = 1 / wanted - kept / cache
    return (1 - kept) / left_s * sample_bytes if left_s > 0 else None


def _min_workers(analysis: Analysis, wanted: float) -> int | None:
    """Returns how many workers a node needs so that preparation does not limit the speed; None if
    its cores are too few for that, or G is missing."""
    if analysis.workers is None or math.isinf(analysis.of("ingest")):
        return None
    least = max(1, analysis.workers)
    least = max(least, math.ceil(least * wanted / analysis.of("prepare") - 1e-9))
    with_them = replace(analysis, workers=least).with_rate(
        "prepare", _prepared(analysis, analysis.cores, least)
    )
    return least if _without_fetches(with_them) >= wanted * (1 - _BORDER) else None


def _min_cores(analysis: Analysis, wanted: float) -> int | None:
    """Returns how many cores a node needs so that preparation does not limit the speed; None if G
    is missing."""
    if math.isinf(analysis.of("ingest")):
        return None
    per_core = min(analysis.of("prepare"), analysis.together()) / analysis.cores
    return math.ceil(wanted / per_core - 1e-9)
