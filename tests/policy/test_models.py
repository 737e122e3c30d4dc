"""The closed forms, against the papers' numbers and against doing it one by one."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from papers import (
    lru_misses,
    minio_misses,
    often_read_samples,
    random_misses,
    randomisation_level,
    reads_more_than,
)

from fanstore.policy.curve import Curve
from fanstore.policy.next_use import frequencies
from fanstore.policy.orders.registry import orders, strided
from fanstore.study import formulas

IMAGENET = 1_281_167
WORKERS, EPOCHS, OFTEN = 16, 90, 10


def test_nopfs_counts_often_read_samples() -> None:
    assert round(often_read_samples(IMAGENET, OFTEN, EPOCHS, WORKERS)) == 31_635


def deviations(sample_count: int) -> float:
    """How far the mean over workers of often read samples, with torch's generator, is from the
    formula, in its standard errors."""
    coming = islice(orders("torch-distributed", sample_count, world_size=WORKERS), EPOCHS)
    counts = frequencies(
        sample_count,
        ([strided(order, rank, WORKERS) for rank in range(WORKERS)] for order in coming),
    )
    found = (counts > OFTEN).sum(axis=1).mean()
    chance = reads_more_than(OFTEN, EPOCHS, WORKERS)
    error = math.sqrt(sample_count * chance * (1 - chance) / WORKERS)
    return abs(float(found) - sample_count * chance) / error


def test_real_orders_agree_with_the_formula() -> None:
    assert deviations(40_000) < 3


@pytest.mark.soak
def test_real_orders_of_imagenet_agree_with_the_formula() -> None:
    assert deviations(IMAGENET) < 3


def test_reads_more_than_is_binomial() -> None:
    assert reads_more_than(0, 1, 4) == 0.25
    assert reads_more_than(1, 2, 4) == 1 / 16
    assert reads_more_than(0, 2, 1) == 1
    assert reads_more_than(5, 5, 4) == 0


RNG = np.random.default_rng(15)
MB = 1e6


def test_nopfs_fetches_and_writes_as_printed() -> None:
    sizes = np.array([1.0, 2.0]) * MB
    ram = Curve([1, 4], [30e9, 85e9])
    assert formulas.local_fetch_s(sizes, ram, 4) == pytest.approx(sizes / 21.25e9)
    assert formulas.remote_fetch_s(sizes, 24e9, ram, 4) == pytest.approx(sizes / 21.25e9)
    assert formulas.remote_fetch_s(sizes, 1e9, ram, 4) == pytest.approx(sizes / 1e9)
    assert formulas.write_s(sizes, 200 * MB, ram, 4) == pytest.approx(sizes / (200 * MB))
    assert formulas.write_s(sizes, 40e9, ram, 4) == pytest.approx(sizes / 21.25e9)


def test_nopfs_fetches_from_the_fastest_source() -> None:
    local, remote = np.array([9.0, 0, 0, 2, 5]), np.array([3.0, 8, 0, 2, 7])
    rates, sources = formulas.fastest_rates(local, remote, 4)
    assert rates.tolist() == [9, 8, 4, 4, 7]
    near, far, shared = formulas.LOCAL, formulas.REMOTE, formulas.SHARED
    assert sources.tolist() == [near, far, shared, shared, far]
    assert formulas.fastest_rates(local, local, 2)[1].tolist() == [near, shared, shared, near, near]


def test_nopfs_lower_bounds() -> None:
    assert formulas.lower_bound_s(262_144 * 17 * MB, 4, 64 * MB) == 17_408
    assert formulas.lower_bound_s(10_000 * 1000 * MB, 8, 64 * MB) == 19_531.25


def test_coordl_rates() -> None:
    assert formulas.fetch_rate(0, 100, 10) == 10
    assert formulas.fetch_rate(1, 100, 10) == 100
    assert formulas.fetch_rate(0.5, 100, 10) == pytest.approx(2 / (1 / 100 + 1 / 10))


def simulated_misses(slots: int, samples: int, evicted: Callable[[Any], Any]) -> float:
    """The miss rate of the last epochs of a cache of so many slots, one random order after the
    other. evicted: chooses what leaves the cache, an OrderedDict by last use."""
    cache: OrderedDict[int, None] = OrderedDict()
    misses = 0
    warm, measured = 6, 12
    for epoch in range(warm + measured):
        for sample in RNG.permutation(samples).tolist():
            if sample in cache:
                cache.move_to_end(sample)
                continue
            misses += epoch >= warm
            if len(cache) == slots:
                del cache[evicted(cache)]
            cache[sample] = None
    return misses / samples / measured


@pytest.mark.parametrize("cached", (0.35, 0.65))
def test_lru_misses(cached: float) -> None:
    found = simulated_misses(int(4000 * cached), 4000, lambda cache: next(iter(cache)))
    assert lru_misses(cached) == pytest.approx(found, abs=0.005)


@pytest.mark.parametrize("cached", (0.35, 0.65))
def test_random_misses(cached: float) -> None:
    samples, slots = 4000, int(4000 * cached)
    kept, place = np.arange(slots), np.arange(samples)
    place[slots:] = -1
    misses, warm, measured = 0, 6, 12
    for epoch in range(warm + measured):
        for sample in RNG.permutation(samples).tolist():
            if place[sample] < 0:
                misses += epoch >= warm
                slot = int(RNG.random() * slots)
                place[kept[slot]] = -1
                kept[slot], place[sample] = sample, slot
    found = misses / samples / measured
    assert random_misses(cached) == pytest.approx(found, abs=0.005)


@pytest.mark.parametrize("value", (-0.1, math.nan, "0.5", None, False))
def test_fractions_are_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match=r"cached is .*; allowed are numbers from 0 to 1"):
        formulas.fetch_rate(value, 1, 1)
    assert formulas.fetch_rate(np.float32(0.5), 1, 1) == 1


def test_misses_at_the_ends() -> None:
    for misses in (lru_misses, random_misses, minio_misses):
        assert (misses(0), misses(1)) == (1, 0)
        values = [misses(cached / 20) for cached in range(21)]
        assert values == sorted(values, reverse=True)
    assert round(random_misses(0.35), 2) == 0.86
    assert minio_misses(0.35) == 0.65


@pytest.mark.parametrize(("together", "percent"), ((4, 72.4), (16, 49.2), (256, 16.1)))
def test_deepio_levels(together: int, percent: float) -> None:
    assert round(100 * randomisation_level(10_960, together), 1) == percent


def test_deepio_levels_at_the_ends() -> None:
    assert randomisation_level(100, 1) == 1
    assert randomisation_level(100, 100) == 0


@pytest.mark.parametrize(
    ("at", "values", "said"),
    (
        ([], [], "allowed is one value for each of one or more points"),
        ([1, 2], [1], "allowed is one value for each"),
        ([2, 1], [1, 1], "a curve is given at .*; allowed is what rises"),
        ([0, 1], [1, 1], "allowed is what rises"),
        ([1, math.inf], [1, 1], "allowed is what rises, finite"),
        ([1, 2], [1, 0], "a curve has values .*; allowed are those above 0"),
        ([1, 2], [1, math.inf], "allowed are those above 0"),
    ),
)
def test_bad_curves_are_refused(at: list[float], values: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Curve(at, values)


def test_curves_are_linear_and_end_level() -> None:
    curve = Curve([1, 2, 4], [10, 30, 20])
    assert curve([0.5, 1, 1.5, 3, 9]).tolist() == [10, 10, 20, 25, 20]
    assert curve.share(4) == 5
    with pytest.raises(ValueError, match="count is 0"):
        curve.share(0)


@pytest.mark.parametrize("value", (0, -1, math.inf, math.nan, "1", None, True))
def test_rates_are_above_zero(value: Any) -> None:
    with pytest.raises(ValueError, match=r"compute_bytes_per_s is .*; allowed are numbers above 0"):
        formulas.lower_bound_s(1, 1, value)
