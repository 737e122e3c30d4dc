"""DeepIO's opportunistic order: what is read when, from where, and how random it is."""

from __future__ import annotations

from collections import Counter
from math import lgamma, log
from typing import Any

import numpy as np
import pytest
from papers import opportunistic_level
from scenarios import scenario, storage
from soak import sampled

from fanstore.policy.cluster import ELSEWHERE, HERE, NOWHERE
from fanstore.study.simulate.caches import OpportunisticCaches
from fanstore.study.simulate.engine import simulate
from fanstore.study.simulate.results import PolicyOutcome
from fanstore.study.simulate.workload import Workload

# How much of the dataset is in memory: the level, in percent.
DOCUMENTED = ((0.1, 98.1), (0.25, 98.0), (0.5, 99.1), (0.75, 99.8))


def memories(files: int, held: int, nodes: int = 1, ranks_per_node: int = 1) -> OpportunisticCaches:
    """Memories that hold so many of the files together, 1 kB each."""
    ram = storage("ram", f"{held // nodes} kB", "8 GB/s")
    changes: dict[str, Any] = {
        "system__nodes": nodes,
        "system__ranks_per_node": ranks_per_node,
        "classes": [ram],
        "dataset__sizes": "fixed",
        "dataset__size": "1 kB",
        "dataset__files": files,
        **{f"dataset__{key}": None for key in ("mean", "deviation", "negative", "seed")},
    }
    return OpportunisticCaches(Workload(scenario(**changes)))


def test_what_is_read_next_was_in_memory_or_just_came_there() -> None:
    nothing = 60
    kept, held = memories(60, 20, nodes=2, ranks_per_node=2), set()
    job = np.append(np.random.default_rng(3).permutation(60), [nothing] * 4).reshape(4, 16)
    for epoch in range(4):
        reads = kept.reads_of(epoch, job)
        assert sorted(reads.ravel()) == sorted(job.ravel())
        assert ((reads == nothing) == (job == nothing)).all()
        found = kept.found(epoch, reads)
        by_turns = reads.T.ravel()[reads.T.ravel() != nothing].tolist()
        assert {int(sample) for sample in reads[found != NOWHERE]} == held
        assert epoch == 0 or {HERE, ELSEWHERE} <= set(found.ravel().tolist())
        assert epoch == 0 or by_turns[0] in held
        assert epoch == 0 or not held <= set(by_turns[:25])  # the rest comes among them
        # On each node what its ranks read last of shared storage.
        halves = (reads[:2], found[:2]), (reads[2:], found[2:])
        fresh = [part.T.ravel()[where.T.ravel() == NOWHERE] for part, where in halves]
        held = {int(each) for part in fresh for each in part[part != nothing][-10:]}
        assert len(held) == 20
    assert kept.peak_bytes == 10_000


def test_shared_storage_gives_what_memory_does_not_hold() -> None:
    room = {"classes": [storage("ram", "1200 kB", "8 GB/s")], "dataset__deviation": "0 B"}
    found = simulate(scenario(**room), ["deepio-opportunistic"]).policies["deepio-opportunistic"]
    assert isinstance(found, PolicyOutcome)
    # 120 of 300 files, in two of three epochs; a quarter of them on the node that reads them.
    assert found.source_shares["shared"] == pytest.approx(1 - 2 / 3 * 0.4)
    assert found.source_shares["ram"] == pytest.approx(2 / 3 * 0.1, rel=0.2)
    assert found.memory_max_bytes > 1_200_000


def levels(samples: int, held: int) -> float:
    """How random the order is, draw by draw: by how many of those held at first are left."""
    chances, nats = {held: 1.0}, 0.0
    for drawn in range(samples):
        inside = min(held, samples - drawn)
        after: dict[int, float] = {}
        for left, chance in chances.items():
            part = left / inside
            nats -= chance * sum(each * log(each) for each in (part, 1 - part) if each > 0)
            for way, each in ((left - 1, part), (left, 1 - part)):
                if each > 0:
                    after[way] = after.get(way, 0.0) + chance * each
        chances = after
    return (nats + lgamma(held + 1) + lgamma(samples - held + 1)) / lgamma(samples + 1)


@pytest.mark.parametrize("held", sampled((1, 2, 3), [2]))
def test_how_random_it_is_measured(held: int) -> None:
    kept, job = memories(5, held), np.arange(5).reshape(1, 5)
    kept.found(0, job)
    draws = 20_000
    orders = Counter(tuple(kept.reads_of(epoch, job)[0].tolist()) for epoch in range(1, draws))
    entropy = -sum(count / draws * log(count / draws) for count in orders.values())
    assert entropy / lgamma(6) == pytest.approx(levels(5, held), abs=0.004)


@pytest.mark.parametrize("held", (30, 75, 150, 225))
def test_how_random_it_is_with_many_samples(held: int) -> None:
    assert opportunistic_level(300, held) == pytest.approx(levels(300, held), abs=0.003)
    assert opportunistic_level(300, 0) == opportunistic_level(300, 300) == 1


@pytest.mark.parametrize(("held", "level"), DOCUMENTED)
def test_randomisation_levels_of_the_documentation(held: float, level: float) -> None:
    assert 100 * opportunistic_level(10_960, round(10_960 * held)) == pytest.approx(level, abs=0.05)
