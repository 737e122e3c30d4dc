"""Computes the rates and times of the simulator and `fanstore analyze` with formulas of two papers.
Sizes are in bytes, rates in bytes per second, times in seconds.

The rates: CoorDL and DS-Analyzer (Mohan et al., VLDB 2021). The times: NoPFS (Dryden et al., SC21),
section 4: a sample is read into the staging buffer by one of some threads (fetched, then prepared
and written there), and consumed in the order of reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.curve import Curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOCAL, REMOTE, SHARED = range(3)  # sources


def fetch_rate(cached: float, cache_rate: float, storage_rate: float) -> float:
    """Returns the rate of fetches, F(x), if a fraction `cached` of a dataset is in a cache that
    never replaces its content (MinIO). Rates may be in any unit."""
    checks.fraction("cached", cached)
    cache = checks.rate("cache_rate", cache_rate)
    return 1 / (cached / cache + (1 - cached) / checks.rate("storage_rate", storage_rate))


def remote_fetch_s(
    sizes_bytes: NDArray[np.float64], network_bytes_per_s: float, storage: Curve, threads: int
) -> NDArray[np.float64]:
    """Returns the time to fetch each sample from a storage class of another worker. storage: its
    throughput in bytes/s by the number of threads that read."""
    rate = checks.rate("network_bytes_per_s", network_bytes_per_s)
    return sizes_bytes / min(rate, storage.share(threads))


def local_fetch_s(
    sizes_bytes: NDArray[np.float64], storage: Curve, threads: int
) -> NDArray[np.float64]:
    """Returns the time to fetch each sample from one of the worker's own storage classes."""
    return sizes_bytes / storage.share(threads)


def fastest_rates(
    local_rates: NDArray[np.float64], remote_rates: NDArray[np.float64], shared_rate: float
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Returns for each sample the rate of the fastest source that has it, in bytes/s, and the
    source: LOCAL, REMOTE or SHARED; of equals the nearest.

    local_rates, remote_rates: of the fastest class that has the sample, on the worker itself and on
    other workers; 0 if none has.
    """
    shared = np.full(np.shape(local_rates), checks.rate("shared_rate", shared_rate))
    rates = np.stack([np.asarray(local_rates), np.asarray(remote_rates), shared])
    return rates.max(axis=0), rates.argmax(axis=0).astype(np.uint8)


def write_s(
    sizes_bytes: NDArray[np.float64],
    preprocess_bytes_per_s: float,
    staging_buffer: Curve,
    threads: int,
) -> NDArray[np.float64]:
    """Returns the time to prepare each sample and write it to the staging buffer, which happen at
    the same time. staging_buffer: its throughput in bytes/s by the number of threads that write."""
    rate = checks.rate("preprocess_bytes_per_s", preprocess_bytes_per_s)
    return sizes_bytes / min(rate, staging_buffer.share(threads))


def lower_bound_s(dataset_bytes: float, workers: int, compute_bytes_per_s: float) -> float:
    """Returns how long an epoch takes if no worker ever waits for a sample."""
    checks.integer("workers", workers, 1)
    rate = checks.rate("compute_bytes_per_s", compute_bytes_per_s)
    return checks.rate("dataset_bytes", dataset_bytes) / (workers * rate)
