"""The figures of steps, and the minimal cache: against closed forms and plain search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scenarios import scenario, storage

from fanstore.errors import UsageError
from fanstore.study.simulate.engine import min_caches, simulate
from fanstore.study.simulate.results import PolicyOutcome
from fanstore.study.simulate.steps import StepCounter

# Shared storage is slow, and the memory of the two nodes holds all files, or as much as is said.
SLOW: dict[str, Any] = {
    "system__nodes": 2,
    "shared__readers": [1, 2, 4],
    "shared__rate": ["20 MB/s", "40 MB/s", "40 MB/s"],
    "shared__readers_per_rank": 2,
    "dataset__deviation": "0 B",
    "job__batch": 3,
    "classes": [storage("ram", "12 MB", "8 GB/s")],
}


def outcome(name: str, **changes: Any) -> PolicyOutcome:
    found = simulate(scenario(**{**SLOW, **changes}), [name]).policies[name]
    assert isinstance(found, PolicyOutcome), found
    return found


def ones(count: int, step_s: float) -> tuple[Any, Any, Any]:
    """Steps that compute a second each, and take so long."""
    return np.full(count, step_s), np.ones(count), np.full(count, 1000)


def test_slow_steps_take_longer_than_one_and_a_half_times_their_computing() -> None:
    steps = StepCounter(0.0)
    steps.add(np.array([1.0, 1.5, 1.6, 3.2]), np.array([1.0, 1.0, 1.0, 2.1]), np.full(4, 10))
    figures = steps.figures()
    assert (figures.count, figures.slow) == (4, 2)


@pytest.mark.parametrize(
    ("rates", "warm_up", "seconds"),
    [
        ([2.0, 1.0], 400, 807.0),
        ([1.0, 1.0], 0, 7.0),
        ([1.0, 2.0], 0, 7.0),
        ([2.0, 1.5, 1.0], 800, 1407.0),
        ([1.04, 1.0], 0, 7.0),
        ([1.06, 1.0], 400, 431.0),
    ],
)
def test_a_job_is_warm_when_it_reads_as_fast_as_in_its_last_epoch(
    rates: list[float], warm_up: int, seconds: float
) -> None:
    steps = StepCounter(7.0)
    for step_s in rates:
        steps.add(*ones(400, step_s))
    figures = steps.figures()
    assert (figures.warm_up, figures.warm_up_s) == (warm_up, pytest.approx(seconds))


def test_warming_up_is_found_within_an_epoch() -> None:
    steps = StepCounter(0.0)
    cold, warm = ones(120, 3.0), ones(280, 1.0)
    steps.add(*(np.concatenate(each) for each in zip(cold, warm, strict=True)))
    steps.add(*ones(400, 1.0))
    assert steps.figures().warm_up == 120
    assert steps.figures().slow == 120


def test_a_job_that_reads_nothing_is_warm_at_once() -> None:
    steps = StepCounter(0.0)
    steps.add(np.zeros(3), np.zeros(3), np.zeros(3, dtype=np.int64))
    assert steps.figures().warm_up == 0


def test_the_first_epoch_of_a_cache_is_its_warming_up() -> None:
    found = outcome("coordl")
    assert found.steps.count == 3 * 50
    assert found.steps.warm_up == found.steps.slow == 50
    assert found.steps.warm_up_s == pytest.approx(found.epochs_s[0], rel=0.02)


def test_where_nothing_is_kept_each_step_is_slow_and_the_first_alone_is_warming_up() -> None:
    found = outcome("staging-buffer")  # of which nothing is loaded while the first one is awaited
    assert (found.steps.slow, found.steps.warm_up) == (150, 1)
    assert outcome("perfect").steps.slow == 0


def test_throughput_is_what_is_consumed_by_the_whole_time() -> None:
    found = outcome("lbann-preload", classes=[storage("ram", "100 MB", "8 GB/s")])
    assert found.startup_s > 0
    assert found.samples_per_s * (found.startup_s + sum(found.epochs_s)) == pytest.approx(900)
    assert found.bytes_per_s == pytest.approx(40_000 * found.samples_per_s)
    # The empty samples of short batches are no samples: 301 files are dealt out as 2 x 151.
    found = outcome("naive", dataset__files=301)
    assert found.samples == 3 * 302


@pytest.mark.parametrize("policy", ["coordl", "nopfs", "lbann-dynamic", "parallel-staging"])
def test_the_minimal_cache_is_the_first_that_is_as_good_as_memory_for_all(policy: str) -> None:
    small = scenario(**{**SLOW, "dataset__files": 64, "dataset__mean": "64 kB", "job__epochs": 2})
    step = 64 * 64_000 // 128

    def as_good(steps: int) -> bool:
        classes = (replace(small.system.classes[0], capacity_bytes=steps * step),)
        changed = replace(small, system=replace(small.system, classes=classes))
        found = simulate(changed, [policy]).policies[policy]
        if isinstance(found, str) or found.covered < 1:
            return False
        return found.total_s <= 1.01 * best_s

    best_s = outcome(policy, dataset__files=64, dataset__mean="64 kB", job__epochs=2,
                     classes=[storage("ram", "4096 kB", "8 GB/s")]).total_s  # fmt: skip
    expected = next(steps for steps in range(129) if as_good(steps)) * step
    assert expected > 0
    assert min_caches(small, [policy]) == {policy: expected}


def test_what_needs_no_cache_has_a_minimal_cache_of_nothing() -> None:
    assert min_caches(scenario(**SLOW), ["perfect", "staging-buffer"]) == {
        "perfect": 0,
        "staging-buffer": 0,
    }


def test_a_minimal_cache_needs_a_storage_class() -> None:
    with pytest.raises(UsageError, match=r"t.toml: .* system.classes is empty; allowed: one"):
        min_caches(scenario(**{**SLOW, "classes": []}), ["nopfs"])
