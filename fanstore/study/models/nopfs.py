"""NoPFS: Dryden et al., Clairvoyant prefetching for distributed machine learning I/O (SC21).

Section 3.1 for how often a worker reads a sample, section 4 for times: a sample is read into the
staging buffer by one of some threads (fetched, then prepared and written there), and consumed in
the order of reads.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.curve import Curve

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOCAL, REMOTE, SHARED = range(3)  # sources


def reads_more_than(times: int, epochs: int, workers: int) -> float:
    """Returns the probability that a worker reads a given sample more than so many times: each
    epoch it does with probability 1 / workers, independently (binomial)."""
    checks.integer("times", times, 0)
    checks.integer("epochs", epochs, 1)
    checks.integer("workers", workers, 1)
    ways = sum(
        comb(epochs, n) * (workers - 1) ** (epochs - n) for n in range(times + 1, epochs + 1)
    )
    return float(Fraction(ways, workers**epochs))


def often_read_samples(sample_count: int, times: int, epochs: int, workers: int) -> float:
    """Returns how many samples one worker is expected to read more than so many times."""
    return checks.sample_count(sample_count) * reads_more_than(times, epochs, workers)


def shared_fetch_s(
    sizes_bytes: NDArray[np.float64], shared: Curve, readers: int
) -> NDArray[np.float64]:
    """Returns the time to fetch each sample from the shared file system, while so many workers do.
    shared: its throughput in bytes/s by the number of workers that read."""
    return sizes_bytes / shared.share(readers)


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
    """Returns the time to fetch each sample from a storage class of the worker's own."""
    return sizes_bytes / storage.share(threads)


def fastest_rates(
    local_rates: NDArray[np.float64], remote_rates: NDArray[np.float64], shared_rate: float
) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Returns for each sample the rate of the fastest source that has it, in bytes/s, and which
    that is: LOCAL, REMOTE or SHARED; of equals the nearest.

    local_rates, remote_rates: of the fastest class of the worker's own and of other workers that
    has the sample, 0 where none has.
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
    """Returns the time to prepare each sample and to write it to the staging buffer, both at once.
    staging_buffer: its throughput in bytes/s by the number of threads that write."""
    rate = checks.rate("preprocess_bytes_per_s", preprocess_bytes_per_s)
    return sizes_bytes / min(rate, staging_buffer.share(threads))


def available_s(read_s: NDArray[np.float64], threads: int) -> NDArray[np.float64]:
    """Returns when each sample is in the staging buffer. read_s: fetch and write of each, in the
    order of reads (last axis); threads: how many share that work."""
    return np.cumsum(read_s, axis=-1) / checks.integer("threads", threads, 1)


def consumed_s(
    sizes_bytes: NDArray[np.float64], ready_s: NDArray[np.float64], compute_bytes_per_s: float
) -> NDArray[np.float64]:
    """Returns when a worker that waits for nobody begins to compute with each sample: when it is
    ready and the one before is done. ready_s: from available_s; both in the order of reads."""
    rate = checks.rate("compute_bytes_per_s", compute_bytes_per_s)
    computed = np.cumsum(sizes_bytes, axis=-1) / rate
    before = computed - sizes_bytes / rate
    return before + np.maximum.accumulate(ready_s - before, axis=-1)


def batches_end_s(
    sizes_bytes: NDArray[np.float64],
    ready_s: NDArray[np.float64],
    compute_bytes_per_s: float,
    batch_size: int,
) -> NDArray[np.float64]:
    """Returns when each batch is done by all workers, which begin the next one together (bulk
    synchronous): one time a batch. sizes_bytes, ready_s: workers x reads, whole batches.

    Raises ValueError where the shapes are others, or a batch is not whole.
    """
    rate = checks.rate("compute_bytes_per_s", compute_bytes_per_s)
    checks.integer("batch_size", batch_size, 1)
    shape = np.shape(sizes_bytes)
    if len(shape) != 2 or np.shape(ready_s) != shape or shape[1] % batch_size:
        raise ValueError(
            f"sizes_bytes are {shape}, ready_s {np.shape(ready_s)}; "
            f"allowed are both workers x reads, and multiples of {batch_size} reads"
        )
    compute_s = (sizes_bytes / rate).reshape(shape[0], -1, batch_size)
    ready = ready_s.reshape(compute_s.shape)
    # From each sample on, what is left of its batch: the batch ends no sooner than that.
    left_s = np.cumsum(compute_s[:, :, ::-1], axis=2)[:, :, ::-1]
    no_sooner = (ready + left_s).max(axis=(0, 2))
    longest = compute_s.sum(axis=2).max(axis=0)
    together = np.cumsum(longest)
    return together + np.maximum.accumulate(no_sooner - together)


def lower_bound_s(dataset_bytes: float, workers: int, compute_bytes_per_s: float) -> float:
    """Returns how long an epoch takes when nobody ever waits for a sample."""
    checks.integer("workers", workers, 1)
    rate = checks.rate("compute_bytes_per_s", compute_bytes_per_s)
    return checks.rate("dataset_bytes", dataset_bytes) / (workers * rate)
