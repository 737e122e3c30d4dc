"""DeepIO's opportunistic order: what is read when, from where, and how random it is."""

from __future__ import annotations

from collections import Counter
from math import log
from typing import Any

import numpy as np
import pytest
from scenarios import scenario, storage

from fanstore.policy.cluster import ELSEWHERE, HERE, NOWHERE
from fanstore.policy.models.deepio import permutation_entropy
from fanstore.simulate.engine import simulate
from fanstore.simulate.opportunistic import Opportunistic
from fanstore.simulate.results import Outcome
from fanstore.simulate.workload import Workload


def memories(files: int, held: int, nodes: int = 1, ranks_per_node: int = 1) -> Opportunistic:
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
    return Opportunistic(Workload(scenario(**changes)))


def test_what_is_held_is_read_first_by_whichever_rank() -> None:
    nothing = 60
    kept, last = memories(60, 20, nodes=2, ranks_per_node=2), set()
    job = np.append(np.random.default_rng(3).permutation(60), [nothing] * 4).reshape(4, 16)
    for epoch in range(4):
        reads = kept.reads_of(epoch, job)
        assert sorted(reads.ravel()) == sorted(job.ravel())
        assert ((reads == nothing) == (job == nothing)).all()
        found = kept.found(epoch, reads)
        by_turns = reads.T.ravel()[reads.T.ravel() != nothing]
        assert set(by_turns[: len(last)].tolist()) == last
        assert (found != NOWHERE).sum() == len(last)
        assert epoch == 0 or {HERE, ELSEWHERE} <= set(found.ravel().tolist())
        # On each node what its ranks read last of shared storage.
        halves = (reads[:2], found[:2]), (reads[2:], found[2:])
        fresh = [part.T.ravel()[where.T.ravel() == NOWHERE] for part, where in halves]
        last = {int(each) for part in fresh for each in part[part != nothing][-10:]}
        assert len(last) == 20
    assert kept.peak_bytes == 10_000


def test_shared_storage_gives_what_memory_does_not_hold() -> None:
    room = {"classes": [storage("ram", "1200 kB", "8 GB/s")], "dataset__deviation": "0 B"}
    found = simulate(scenario(**room), ["deepio-opportunistic"]).policies["deepio-opportunistic"]
    assert isinstance(found, Outcome)
    # 120 of 300 files, in two of three epochs; a quarter of them on the node that reads them.
    assert found.source_shares["shared"] == pytest.approx(1 - 2 / 3 * 0.4)
    assert found.source_shares["ram"] == pytest.approx(2 / 3 * 0.1, rel=0.2)
    assert found.memory_max_bytes > 1_200_000


def test_how_random_it_is() -> None:
    kept, job = memories(5, 2), np.arange(5).reshape(1, 5)
    kept.found(0, job)
    orders = Counter(tuple(kept.reads_of(epoch, job)[0].tolist()) for epoch in range(1, 6001))
    entropy = -sum(count / 6000 * log(count / 6000) for count in orders.values())
    assert len(orders) == 12
    assert entropy / log(120) == pytest.approx(permutation_entropy([2, 3]), abs=0.002)
    # Where memory holds all or nothing, every order can come.
    assert permutation_entropy([5]) == permutation_entropy([0, 5]) == 1


@pytest.mark.parametrize(("held", "level"), [(0.1, 97.5), (0.25, 95.7), (0.5, 94.7)])
def test_randomisation_levels_of_the_documentation(held: float, level: float) -> None:
    samples = 1_281_167
    parts = [round(samples * held), samples - round(samples * held)]
    assert 100 * permutation_entropy(parts) == pytest.approx(level, abs=0.05)
