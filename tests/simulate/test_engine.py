"""The simulation against plain loops, closed forms and itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scenarios import plain, scenario, storage

from fanstore.errors import UsageError
from fanstore.study.simulate.engine import simulate
from fanstore.study.simulate.epochs import epoch_of, padded
from fanstore.study.simulate.policies import POLICIES
from fanstore.study.simulate.results import PolicyOutcome
from fanstore.study.simulate.sources import thread_shares
from fanstore.study.simulate.steps import Batches, Pipeline
from fanstore.study.simulate.workload import Workload

RNG = np.random.default_rng(8)

CASES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "slow shared storage": {"shared__rate": ["10 MB/s", "20 MB/s", "30 MB/s", "40 MB/s"]},
    "slow, each thread a reader": {
        "shared__rate": ["20 MB/s", "40 MB/s", "60 MB/s", "70 MB/s"],
        "shared__readers_per_rank": 2,
    },
    "room for one batch": {
        "staging_buffer__capacity": "500 kB",
        "shared__rate": ["40 MB/s", "80 MB/s", "160 MB/s", "320 MB/s"],
    },
    "two ranks a node": {
        "system__nodes": 3,
        "system__ranks_per_node": 2,
        "shared__rate": ["10 MB/s", "20 MB/s", "30 MB/s", "40 MB/s"],
    },
    "one node": {"system__nodes": 1, "system__compute": "500 MB/s"},
    "slow network": {"system__network": "20 MB/s", "system__compute": "100 MB/s"},
    "slow disks": {
        "classes": [storage("ram", "1 MB", "300 MB/s"), storage("disk", "3 MB", "20 MB/s")],
        "system__compute": "300 MB/s",
    },
}


def outcome(name: str, **changes: Any) -> PolicyOutcome:
    found = simulate(scenario(**changes), [name]).policies[name]
    assert isinstance(found, PolicyOutcome), found
    return found


@pytest.mark.parametrize("policy", ["staging-buffer", "coordl"])
@pytest.mark.parametrize("case", CASES)
def test_is_what_plain_loops_give(case: str, policy: str) -> None:
    small = scenario(**CASES[case])
    plan = POLICIES[policy].plan(Workload(small))
    placement = plan.placement
    if placement is None:
        placement = np.full((small.system.nodes, 300), 255, dtype=np.uint8)
    epochs_s, sources = plain(small, placement, plan.preloaded, 0.0)
    found = outcome(policy, **CASES[case])
    assert found.epochs_s == pytest.approx(epochs_s.tolist(), rel=1e-7)
    assert {name: size for name, size in found.source_bytes.items() if size} == sources


def test_some_of_these_cases_stall_and_some_do_not() -> None:
    shares = {case: outcome("nopfs", **changes).stall_share for case, changes in CASES.items()}
    assert shares["as it is"] < 0.01
    assert shares["slow shared storage"] > 0.2


def paper_end_s(sizes: Any, ready_s: Any, compute_bytes_per_s: float, batch_size: int) -> float:
    """When all batches are done by ranks that begin each together: NoPFS, section 4."""
    end_s = 0.0
    for first in range(0, sizes.shape[1], batch_size):
        done = []
        for rank in range(len(sizes)):
            now = end_s
            for at in range(first, first + batch_size):
                now = max(now, ready_s[rank, at]) + sizes[rank, at] / compute_bytes_per_s
            done.append(now)
        end_s = max(done)
    return end_s


def test_an_endless_staging_buffer_gives_the_model_of_the_paper() -> None:
    ranks, reads, batch = 3, 60, 4
    sizes = RNG.integers(1, 1000, (ranks, reads)).astype(float)
    load_s = RNG.random((ranks, reads)) * 2
    ready_s = load_s.cumsum(axis=1)
    epoch = epoch_of(
        0, np.arange(ranks * reads).reshape(ranks, reads), np.append(sizes, 0), 500.0, batch
    )
    loaded = load_s.reshape(ranks, -1, batch).cumsum(axis=2)
    span_s = (loaded + epoch.left_s.reshape(loaded.shape)).max(axis=2)
    pipeline = Pipeline(ranks, 10**9, 0.0)
    pipeline.advance(Batches(loaded[:, :, -1], span_s, epoch.compute_s, epoch.batch_bytes))
    assert pipeline.end_s == pytest.approx(paper_end_s(sizes, ready_s, 500.0, batch))


def test_epochs_in_two_parts_are_as_in_one() -> None:
    load_s, span_s = RNG.random((2, 3, 40))
    batches = Batches(load_s, load_s + span_s, RNG.random(40), RNG.integers(0, 50, (3, 40)))
    whole, parts = Pipeline(3, 120, 0.0), Pipeline(3, 120, 0.0)
    whole.advance(batches)
    for part in (slice(0, 13), slice(13, 14), slice(14, 40)):
        parts.advance(
            Batches(
                batches.load_s[:, part],
                batches.span_s[:, part],
                batches.compute_s[part],
                batches.batch_bytes[:, part],
            )
        )
    assert parts.end_s == pytest.approx(whole.end_s)
    assert parts.staged_max_bytes == whole.staged_max_bytes <= 120


def test_the_last_batch_may_be_smaller() -> None:
    matrix = padded([np.array([1, 2, 3]), np.array([4, 5])], 2, 9)
    assert matrix.tolist() == [[1, 2, 3, 9], [4, 5, 9, 9]]


def test_naive_pays_for_all_in_turn() -> None:
    changes = {"dataset__deviation": "0 B", "job__batch": 5}
    found = outcome("naive", **changes)
    each_s = 40e3 * (1 / 64e6 + 1 / 200e6 + 4 / 1540e6)
    assert found.epochs_s == pytest.approx([75 * each_s] * 3)
    assert outcome("perfect", **changes).epochs_s == pytest.approx([75 * 40e3 / 64e6] * 3)


def test_what_is_preloaded_is_paid_for_before_the_first_epoch() -> None:
    room = {"classes": [storage("ram", "100 MB", "8 GB/s")], "dataset__deviation": "0 B"}
    for policy in ("lbann-preload", "parallel-staging"):
        found = outcome(policy, **room)
        assert found.startup_s == pytest.approx(75 * 40e3 / (1540e6 / 4))
        assert found.source_bytes["shared"] == 0
        assert found.startup_bytes == 300 * 40_000
        assert found.first_epoch_s == pytest.approx(found.startup_s + found.epochs_s[0])


def test_shards_are_read_by_their_own_node_alone() -> None:
    found = outcome("parallel-staging", dataset__files=400)
    assert {name for name, size in found.source_bytes.items() if size} <= {"ram", "disk"}
    assert 0.7 < found.covered < 0.8  # 16 MB, and room for 3 MB on each node


def test_a_node_reads_what_it_keeps_with_the_locality_aware_order() -> None:
    changed, as_read = (outcome(name).source_shares for name in ("locality-aware", "coordl"))
    assert changed["ram"] + changed["disk"] > 2 * as_read["ram"]


def test_only_nopfs_keeps_files_twice_before_all_are_kept_once() -> None:
    by_rank, divided = (outcome(name).source_shares for name in ("nopfs", "frequency-partition"))
    assert by_rank["shared"] > 0.34
    assert divided["shared"] == pytest.approx(1 / 3, abs=0.002)  # the first of three epochs


def test_policies_that_run_one_after_the_other_do_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together, epochs = simulate(scenario()), []
    monkeypatch.setattr("fanstore.study.simulate.engine._SIDE_BY_SIDE_MAX", 1)
    assert simulate(scenario(), on_epoch=lambda: epochs.append(1)) == together
    assert len(epochs) == 3


def test_the_same_each_time() -> None:
    first, again = simulate(scenario()), simulate(scenario())
    assert first == again
    other = simulate(scenario(job__order={"name": "torch-distributed", "seed": 8}))
    assert first != other


def test_says_why_a_policy_cannot_run() -> None:
    found = simulate(scenario(), ["lbann-dynamic", "lbann-preload"]).policies
    for reason in found.values():
        assert isinstance(reason, str)
        assert "exceeds the memory of all nodes (3.8 MiB)" in reason
    bare = simulate(scenario(classes=[])).policies
    assert {name for name, each in bare.items() if isinstance(each, str)} == {
        "deepio-ordered", "parallel-staging", "lbann-dynamic", "lbann-preload", "locality-aware",
        "coordl", "deepio-opportunistic", "close", "lru", "random", "minio", "reuse", "belady",
        "lobster", "dali",
    }  # fmt: skip
    assert bare["nopfs"] == bare["staging-buffer"]


def test_a_batch_that_the_staging_buffer_does_not_hold_is_refused() -> None:
    with pytest.raises(UsageError, match=r"test.toml: system.staging_buffer.capacity is 97.7 KiB"):
        simulate(scenario(staging_buffer__capacity="100 kB"))


def test_memory_is_that_of_the_fullest_node() -> None:
    found = outcome("nopfs", system__nodes=2, system__ranks_per_node=2)
    assert 3_000_000 < found.memory_max_bytes <= 1_000_000 + 2 * 2_000_000


def test_an_order_that_refuses_its_parameters_names_the_file() -> None:
    with pytest.raises(UsageError, match=r"test.toml: job.order: .*'colour'"):
        simulate(scenario(job__order={"name": "torch-distributed", "colour": 1}))
    with pytest.raises(UsageError, match=r"order torch-random is of 4 ranks"):
        simulate(scenario(job__order={"name": "torch-random", "seed": 1}))


def test_shared_storage_never_gives_more_than_its_curve() -> None:
    slow = {
        "shared__rate": ["10 MB/s", "20 MB/s", "30 MB/s", "40 MB/s"],
        "shared__readers_per_rank": 2,
        "system__compute": "900 MB/s",
    }
    for policy in ("staging-buffer", "nopfs", "coordl", "locality-aware"):
        found = outcome(policy, **slow)
        assert found.source_bytes["shared"] / found.total_s <= 40e6
    # What nothing else holds up is nearly as fast: batches wait for the rank with most bytes.
    found = outcome("staging-buffer", **slow, system__preprocess="100 GB/s")
    assert found.source_bytes["shared"] / found.total_s == pytest.approx(40e6, rel=0.05)


def test_the_ranks_of_a_node_share_what_it_keeps_and_what_it_lacks() -> None:
    lacking = {
        "system__nodes": 1,
        "system__ranks_per_node": 4,
        "shared__rate": ["10 MB/s", "20 MB/s", "40 MB/s", "80 MB/s"],
        "shared__readers_per_rank": 2,
        "dataset__files": 1000,
        "job__batch": 10,
        "classes": [storage("ram", "20 MB", "8 GB/s")],
    }
    dealt, as_read = (outcome(name, **lacking).epochs_s[-1] for name in ("locality-aware", "nopfs"))
    assert dealt < 1.1 * as_read


SLOW = {"shared__rate": ["10 MB/s", "20 MB/s", "30 MB/s", "40 MB/s"], "dataset__deviation": "0 B"}
ROOM = storage("ram", "100 MB", "8 GB/s")


def test_threads_of_the_classes_read_shared_storage_beside_those_of_the_staging_buffer() -> None:
    fast = {**SLOW, "shared__rate": ["10 MB/s", "20 MB/s", "40 MB/s", "400 MB/s"],
            "shared__readers": [1, 2, 4, 40]}  # fmt: skip
    first_s = [outcome("coordl", **fast, classes=[ROOM]).epochs_s[0]]
    for threads in (1, 2, 4):
        found = outcome("nopfs", **fast, classes=[ROOM | {"threads": threads}])
        assert found.source_bytes["shared"] == 300 * 40_000
        first_s.append(found.epochs_s[0])
    assert first_s == sorted(first_s, reverse=True)
    assert first_s[-1] < 0.7 * first_s[0]


def test_classes_that_are_filled_slowly_serve_later_epochs_too() -> None:
    slow = ROOM | {"write": {"threads": [1], "rate": ["100 kB/s"]}}
    found = outcome("nopfs", **SLOW, classes=[slow], job__epochs=6)
    # What a node has read itself is there; only what others keep comes over the network.
    assert found.source_bytes["shared"] == pytest.approx(300 * 40_000, rel=0.05)
    assert found.epochs_s[1] == pytest.approx(outcome("perfect", **SLOW).epochs_s[0], rel=0.01)


def test_deepio_fetches_on_demand_what_memory_does_not_hold() -> None:
    some = storage("ram", "1 MB", "8 GB/s")
    naive = outcome("naive", **SLOW).epochs_s[1]
    few = outcome("deepio-ordered", **SLOW, classes=[some]).epochs_s
    all_there = outcome("deepio-ordered", **SLOW, classes=[ROOM]).epochs_s
    assert few[0] == pytest.approx(naive, rel=0.02)
    assert all_there[1] < few[1] < naive


GPUS = {
    "system__nodes": 1,
    "system__ranks_per_node": 4,
    "system__compute": "500 MB/s",
    "system__preprocess": "50 MB/s",
    "shared__rate": ["20 MB/s", "20 MB/s", "20 MB/s", "20 MB/s"],
    "staging_buffer__capacity": "500 kB",
    "staging_buffer__threads": 6,
    "classes": [storage("ram", "4 MB", "8 GB/s")],
}


def test_threads_are_divided_so_that_all_ranks_of_a_node_are_done_at_once() -> None:
    system = scenario(**GPUS).system
    work_s = RNG.random((4, 50)) + 0.1
    shares = thread_shares(work_s, system)
    assert (shares.sum(axis=0) == pytest.approx(4)) and shares.min() >= 1 / 6
    assert np.array_equal(shares * 6, np.rint(shares * 6))
    before, after = (np.ptp(each, axis=0).mean() for each in (work_s, work_s / shares))
    assert after < before / 2
    assert thread_shares(np.zeros((4, 1)), system).tolist() == [[1], [1], [1], [1]]


def test_what_the_parts_of_lobster_bring() -> None:
    fixed, balanced = outcome("dali", **GPUS), outcome("lobster", **GPUS)
    kept = outcome("reuse", **GPUS)
    assert balanced.total_s < kept.total_s < fixed.total_s
    few = simulate(scenario(**{**GPUS, "staging_buffer__threads": 3}), ["dali"]).policies["dali"]
    assert few == "a rank has 3 threads; it needs more than 3"
