"""Predicts the gain of each setting of FanStore from the measured rates, and from the part of the
reads that a cache serves under a policy, according to the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fanstore.study.analyze.analysis import Analysis
from fanstore.study.formulas import fetch_rate
from fanstore.study.simulate.engine import simulate
from fanstore.study.simulate.results import PolicyOutcome
from fanstore.study.simulate.scenario import Scenario, scenario_from

POLICIES = ("lru", "random", "minio", "belady")
CACHES = (0.25, 0.5, 0.75, 1.0)
JOBS = (2, 4)  # the numbers of jobs that share a node
_SAMPLES = 4000  # simulated samples; more give the same result
_WARM, _EPOCHS = 2, 5  # epochs that fill a cache, and all simulated epochs


@dataclass(frozen=True)
class Gain:
    """The predicted gain of a setting. setting: an option of `fanstore run`, if there is one.
    samples_per_s: the predicted speed. times: that speed divided by the speed without any
    setting."""

    setting: str
    samples_per_s: float
    times: float


def gains_of(analysis: Analysis) -> list[Gain]:
    """Returns the gains of settings, if the analysis has P, S and C. They are compared with a job
    whose workers wait for the storage in every read."""
    plain = _in_turn(analysis, analysis.of("storage"))
    hits = {part: cached_shares(part) for part in CACHES}
    rows = [("--order off, no cache", plain), ("prefetch (--order auto), no cache",
            _beside(analysis, analysis.of("storage")))]  # fmt: skip
    for part, shares in hits.items():
        for policy, share in shares.items():
            fetch = fetch_rate(share, analysis.of("cache"), analysis.of("storage"))
            known = policy == "belady"
            speed = _beside(analysis, fetch) if known else _in_turn(analysis, fetch)
            order = "prefetch" if known else "--order off"
            rows.append((f"cache of {part:.0%}, --cache-policy {policy}, {order}", speed))
    rows += _of_compression(analysis)
    rows += _of_coordination(analysis)
    return [Gain(setting, speed, speed / plain) for setting, speed in rows]


def best(gains: Sequence[Gain]) -> list[Gain]:
    """Returns the settings of one job with the largest gains, each faster than those before it;
    prefetching alone comes first."""
    found: list[Gain] = []
    for gain in gains[1:]:
        is_ours = "such jobs" not in gain.setting
        if is_ours and gain.times > 1.01 * (found[-1].times if found else 1):
            found.append(gain)
    return found


def _beside(analysis: Analysis, fetch: float) -> float:
    """Returns the speed if samples are fetched ahead of the workers."""
    if not analysis.overlap:
        return min(fetch, 1 / (1 / analysis.of("ingest") + 1 / analysis.of("prepare")))
    return min(fetch, analysis.of("prepare"), analysis.of("ingest"), analysis.together())


def _in_turn(analysis: Analysis, fetch: float) -> float:
    """Returns the speed if a worker fetches a sample and then prepares it. P includes a fetch from
    memory, and S is the rate of all workers together."""
    loading = 1 / analysis.of("prepare") + max(0.0, 1 / fetch - 1 / analysis.of("cache"))
    if not analysis.overlap:
        return 1 / (1 / analysis.of("ingest") + loading)
    return min(1 / loading, analysis.of("ingest"), analysis.together())


def _of_compression(analysis: Analysis) -> Iterator[tuple[str, float]]:
    if analysis.compression is None:
        return
    ratio = analysis.compression["ratio"]
    decode_s = analysis.sample_bytes / analysis.compression["decode_bytes_per_s"]
    prepare = 1 / (1 / analysis.of("prepare") + decode_s / analysis.cores)
    changed = analysis.with_rate("prepare", prepare)
    if "prepare" in analysis.processor_s:
        took_s = {**analysis.processor_s, "prepare": analysis.processor_s["prepare"] + decode_s}
        changed = replace(changed, processor_s=took_s)
    yield (
        f"prepare --codec zstd ({ratio:.2f} times smaller), prefetch, no cache",
        _beside(changed, analysis.of("storage") * ratio),
    )


def _of_coordination(analysis: Analysis) -> Iterator[tuple[str, float]]:
    """Yields the speeds of several jobs on one node, each with a part of the preparation and of the
    storage."""
    for jobs in JOBS:
        alone = analysis.with_rate("prepare", analysis.of("prepare") / jobs)
        speed = min(_beside(alone, analysis.of("storage") / jobs), analysis.together(jobs, jobs))
        yield f"{jobs} such jobs on the node, each", speed
        speed = min(_beside(analysis, analysis.of("storage")), analysis.together(jobs))
        yield f"{jobs} such jobs on the node with coordinated preparation, each", speed


def cached_shares(part: float) -> dict[str, float]:
    """Returns the part of the reads that a warm cache serves, by policy. part: the part of the
    dataset that fits into the cache. Each epoch reads every sample once, in another order."""
    warm, both = (_simulated(part, epochs) for epochs in (_WARM, _EPOCHS))
    return {name: _share(warm[name], both[name]) for name in POLICIES if name in both}


def _simulated(part: float, epochs: int) -> dict[str, PolicyOutcome]:
    found = simulate(_scenario(part, epochs), POLICIES).policies
    return {name: each for name, each in found.items() if isinstance(each, PolicyOutcome)}


def _share(warm: PolicyOutcome, both: PolicyOutcome) -> float:
    read = {name: both.source_bytes[name] - warm.source_bytes[name] for name in both.source_bytes}
    return 1 - read["shared"] / sum(read.values())


def _scenario(part: float, epochs: int) -> Scenario:
    """Returns a scenario with a node whose memory holds a part of the dataset. Its rates do not
    matter here."""
    curve = {"threads": [1], "rate": ["10 GB/s"]}
    return scenario_from("analysis", {
        "about": "an analysed job",
        "system": {
            "nodes": 1, "ranks_per_node": 1, "compute": "1 GB/s", "preprocess": "1 GB/s",
            "shared": {"readers": [1], "rate": ["1 GB/s"], "readers_per_rank": 1},
            "staging_buffer": {"capacity": "100 kB", "threads": 1, "write": curve},
            "classes": [{
                "name": "ram", "capacity": f"{round(part * _SAMPLES)} kB", "threads": 1,
                "read": curve, "write": curve,
            }],
        },
        "dataset": {"sizes": "fixed", "files": _SAMPLES, "size": "1 kB"},
        "job": {
            "epochs": epochs, "batch": 8, "order": {"name": "torch-distributed", "seed": 0},
        },
    })  # fmt: skip
