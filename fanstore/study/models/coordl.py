"""CoorDL and DS-Analyzer: Mohan et al., Analyzing and mitigating data stalls in DNN training
(VLDB 2021); and the misses of caches when every epoch is another permutation."""

from __future__ import annotations

from math import expm1, log, log1p

from fanstore.policy import checks


def fetch_rate(cached: float, cache_rate: float, storage_rate: float) -> float:
    """Returns the rate of fetches, F(x), if a fraction `cached` of a dataset is in a cache that
    never replaces its content (MinIO): the rates in any unit."""
    checks.fraction("cached", cached)
    cache = checks.rate("cache_rate", cache_rate)
    return 1 / (cached / cache + (1 - cached) / checks.rate("storage_rate", storage_rate))


def training_rate(fetch: float, preprocess: float, compute: float) -> float:
    """Returns the rate of training: that of its slowest stage."""
    stages = {"fetch": fetch, "preprocess": preprocess, "compute": compute}
    return min(checks.rate(name, value) for name, value in stages.items())


def minio_misses(cached: float) -> float:
    """Returns the miss rate of a cache that never replaces its content."""
    return 1 - checks.fraction("cached", cached)


def lru_misses(cached: float) -> float:
    """Returns the steady miss rate of a cache that replaces the least recently used: a - a ln a,
    with a the fraction that is not cached."""
    uncached = 1 - checks.fraction("cached", cached)
    return uncached - uncached * log(uncached) if uncached else 0.0


def random_misses(cached: float) -> float:
    """Returns the steady miss rate of a cache that replaces at random: 1 + f ln(1 - f + f exp(-1 /
    f)), with f the fraction that is cached.

    An epoch begins with a hit rate of f, which falls later on. A rate that is the same all through
    the epoch, m = 1 - ((1 - exp(-m / f)) / (m / f))**2, is up to 0.2 points too high.
    """
    checks.fraction("cached", cached)
    if cached in (0, 1):
        return 1 - cached
    return 1 + cached * log1p(cached * expm1(-1 / cached))
