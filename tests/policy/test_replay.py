"""Replays of traces, beside plain models of each policy, closed forms and the papers' numbers."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from next_reads import next_uses
from papers import lru_misses, minio_misses, random_misses
from replay import replay
from soak import sampled

from fanstore.policy.cluster import POLICIES, WITH_NEXT_USES
from fanstore.policy.next_use import NEVER
from fanstore.policy.placement.by_frequency import by_frequency
from fanstore.policy.placement.rules import NOWHERE

RNG = np.random.default_rng(15)
IMAGENET = 1_281_167


def permutations(sample_count: int, epochs: int, ranks: int = 1) -> Any:
    """What one of some ranks reads in some epochs."""
    each = [RNG.permutation(sample_count)[: sample_count // ranks] for _ in range(epochs)]
    return np.concatenate(each).astype(np.uint32)


def told(policy: str, reads: Any) -> dict[str, Any]:
    """What a policy needs to be told of a trace."""
    return {"next_uses": next_uses(reads)} if policy in WITH_NEXT_USES else {}


# What the policies do, by plain models.


def most_hits(reads: list[int], capacity: int) -> int:
    """The most hits that any choice of what to keep can have, by trying all."""

    @cache
    def best(read: int, held: frozenset[int]) -> int:
        if read == len(reads):
            return 0
        if reads[read] in held:
            return 1 + best(read + 1, held)
        after = held | {reads[read]}
        choices = [held] + [after - {other} for other in after]
        choices += [after] * (len(after) <= capacity)
        return max(best(read + 1, choice) for choice in choices)

    return best(0, frozenset())


@pytest.mark.parametrize("samples", (2, 3, 4, 5, 6))
def test_belady_has_the_most_hits_that_are_possible(samples: int) -> None:
    for _ in range(60):
        reads = RNG.integers(0, samples, RNG.integers(1, 13))
        capacity = int(RNG.integers(0, samples + 1))
        found = replay("belady", reads, 7, 7 * capacity, next_uses=next_uses(reads))
        assert found.sum() == most_hits(reads.tolist(), capacity), (reads, capacity)


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "belady"])
def test_no_policy_has_more_hits_than_belady(policy: str) -> None:
    for _ in range(20):
        reads = RNG.integers(0, 50, 1000)
        capacity = int(RNG.integers(0, 51))
        best = replay("belady", reads, 1, capacity, next_uses=next_uses(reads))
        assert replay(policy, reads, 1, capacity, **told(policy, reads)).sum() <= best.sum()


def test_lru_is_an_ordered_dict() -> None:
    sizes = RNG.integers(0, 9, 40)
    reads = RNG.integers(0, 40, 3000)
    for capacity in (0, 5, 60, 200):
        held: OrderedDict[int, int] = OrderedDict()
        hits = []
        for sample in reads.tolist():
            hits.append(sample in held)
            held.pop(sample, None)
            if sizes[sample] > capacity:
                continue
            while held and sum(held.values()) + sizes[sample] > capacity:
                held.popitem(last=False)
            held[sample] = int(sizes[sample])
        assert replay("lru", reads, sizes, capacity).tolist() == hits


def foreseen_hits(
    policy: str, reads: list[int], sizes: list[int], capacity: int, uses: list[int]
) -> list[bool]:
    """Hits under a policy with an oracle: of each sample that is held, its next use. Of equals the
    one in the lowest slot goes first; what comes takes the slot that was freed last."""
    held: dict[int, int] = {}
    slots: dict[int, int] = {}
    free_slots = list(range(len(sizes)))[::-1]
    hits = []
    for place, sample in enumerate(reads):
        hits.append(sample in held)
        free = capacity - sum(sizes[other] for other in held)
        while sample not in held and held and free < sizes[sample] <= capacity:
            first = max(held, key=lambda other: (held[other], -slots[other]))
            if policy == "belady" and uses[place] >= held[first]:
                break
            free += sizes[first]
            del held[first]
            free_slots.append(slots[first])
        if sample not in held and free >= sizes[sample]:
            slots[sample] = free_slots.pop()
        if sample in held or free >= sizes[sample]:
            held[sample] = uses[place]
    return hits


@pytest.mark.parametrize("policy", WITH_NEXT_USES)
@pytest.mark.parametrize("ranks", (1, 3))
def test_policies_with_an_oracle_follow_their_rule(policy: str, ranks: int) -> None:
    sizes = RNG.integers(0, 9, 60)
    reads = permutations(60, 40, ranks)
    uses = next_uses(reads)
    for capacity in (0, 8, 60, 150):
        hits = foreseen_hits(policy, reads.tolist(), sizes.tolist(), capacity, uses.tolist())
        assert replay(policy, reads, sizes, capacity, uses).tolist() == hits


def test_minio_keeps_what_came_first() -> None:
    found = replay("minio", [0, 1, 2, 0, 1, 2, 3, 3], [5, 6, 7, 1], 12)
    assert found.tolist() == [False, False, False, True, True, False, False, True]


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_to_read(policy: str) -> None:
    known = {"next_uses": np.zeros(0, dtype=np.uint32)} if policy in WITH_NEXT_USES else {}
    assert not len(replay(policy, np.zeros(0, int), 1, 1, **known))


# Steady states, against closed forms: every epoch is another permutation.

CLOSED: dict[str, Callable[[float], float]] = {
    "minio": minio_misses,
    "lru": lru_misses,
    "random": random_misses,
}
WARM = 4  # epochs until nothing changes from one to the next but by chance


def misses_by_epoch(policy: str, cached: float, samples: int, epochs: int) -> Any:
    """The miss rate of each epoch once the cache is warm."""
    found = replay(policy, permutations(samples, epochs), 1, round(samples * cached))
    return 1 - found.reshape(epochs, samples)[WARM:].mean(axis=1)


@pytest.mark.parametrize("cached", (0.35, 0.65))
@pytest.mark.parametrize("policy", CLOSED)
def test_steady_misses_are_those_of_the_closed_forms(policy: str, cached: float) -> None:
    misses = misses_by_epoch(policy, cached, 20_000, 14)
    assert abs(misses.mean() - CLOSED[policy](cached)) < 0.005


@pytest.mark.parametrize("cached", (0.35, 0.65))
def test_random_is_within_its_error_of_the_closed_form(cached: float) -> None:
    misses = misses_by_epoch("random", cached, 20_000, 54)
    error = misses.std(ddof=1) / math.sqrt(len(misses))
    assert abs(misses.mean() - random_misses(cached)) < 3 * error


# The papers' numbers. The page cache under shuffled reads is closer to random than to LRU.


@pytest.mark.parametrize(
    "policy, cached, dataset_gb, printed_gb",
    (
        ("minio", 0.65, 645, 225),  # CoorDL, table 5: CoorDL
        ("random", 0.65, 645, 340),  # the same: DALI-shuffle
        ("random", 0.35, 146, 125),  # section 4.2: one job
    ),
)
def test_coordl_bytes_read(policy: str, cached: float, dataset_gb: int, printed_gb: int) -> None:
    misses = misses_by_epoch(policy, cached, 20_000, 14)
    assert misses.mean() * dataset_gb == pytest.approx(printed_gb, rel=0.02)


JOBS, SEARCH_SAMPLES, SEARCH_EPOCHS = 8, 20_000, 12


def search_reads(policy: str, reads: Any) -> Any:
    """How often the dataset is read in each warm epoch with 35 % of it in the cache."""
    found = replay(policy, reads, 1, round(0.35 * SEARCH_SAMPLES))
    return (~found).reshape(SEARCH_EPOCHS, -1)[WARM:].sum(axis=1) / SEARCH_SAMPLES


def test_uncoordinated_search_reads_six_times_as_much() -> None:
    jobs = [permutations(SEARCH_SAMPLES, SEARCH_EPOCHS) for _ in range(JOBS)]
    one = search_reads("random", jobs[0]).mean()
    together = search_reads("random", np.stack(jobs, axis=1).ravel()).mean()
    assert together / one == pytest.approx(6.3, abs=0.1)


def test_coordinated_search_reads_the_dataset_once() -> None:
    order = permutations(SEARCH_SAMPLES, 1)
    found = replay("lru", np.repeat(order, JOBS), 1, 1)
    assert (~found).sum() == SEARCH_SAMPLES


# One node of eight, 40 GB of ImageNet-1k's 135 GB in its cache, 90 epochs. The Lobster paper
# prints 63.2 % for reuse.

LOBSTER = {
    "lru": 24.4,
    "random": 25.2,
    "minio": 29.0,
    "frequency": 36.8,
    "reuse": 61.2,
    "belady": 61.3,
}
NODES, CACHED = 8, 40 / 135


def planned(reads: Any, samples: int) -> Any:
    """A cache that keeps what is read most often, as NoPFS places it, and nothing else."""
    counts = np.bincount(reads, minlength=samples).astype(np.uint16)
    capacity = int(samples * CACHED)
    kept = by_frequency(np.ones(samples, dtype=int), counts[None], [[capacity]])[0] != NOWHERE
    return replay("minio", reads[kept[reads]], 1, capacity)


@pytest.mark.parametrize("samples", sampled((40_000, IMAGENET), {40_000}))
@pytest.mark.parametrize("policy", LOBSTER)
def test_lobster_hits_of_eight_streams(policy: str, samples: int) -> None:
    reads = permutations(samples, 90, NODES)
    if policy == "frequency":
        found = planned(reads, samples)
    else:
        found = replay(policy, reads, 1, int(samples * CACHED), **told(policy, reads))
    assert 100 * found.sum() / len(reads) == pytest.approx(LOBSTER[policy], abs=0.5)


def test_lobster_reuse_distances() -> None:
    # Section 3: eight nodes, 562 iterations an epoch; section 5: 50 epochs.
    samples, iterations, epochs = 40_000, 562, 50
    reads = permutations(samples, epochs, NODES)
    iteration = np.arange(len(reads)) * iterations // (samples // NODES)
    later = next_uses(reads)
    again = np.flatnonzero(later != NEVER)
    distances = iteration[later[again]] - iteration[again]
    assert 100 * (distances > 1000).mean() == pytest.approx(82, abs=0.5)
