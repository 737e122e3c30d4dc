"""Policies whose caches change with each read, against policies that they are equal to."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from scenarios import scenario, storage

from fanstore.errors import UsageError
from fanstore.study.simulate.engine import simulate
from fanstore.study.simulate.results import PolicyOutcome

DYNAMIC = ("lru", "random", "minio", "reuse", "belady")
SLOW = {
    "shared__rate": ["10 MB/s", "20 MB/s", "30 MB/s", "40 MB/s"],
    "system__network": "100 MB/s",
    "dataset__deviation": "0 B",
}


def outcome(name: str, **changes: Any) -> PolicyOutcome:
    found = simulate(scenario(**{**SLOW, **changes}), [name]).policies[name]
    assert isinstance(found, PolicyOutcome), found
    return found


def memory(capacity: str) -> dict[str, Any]:
    return {"classes": [storage("ram", capacity, "8 GB/s")]}


def test_minio_on_one_node_is_coordl() -> None:
    alone = {"system__nodes": 1, **memory("4 MB")}
    dynamic, placed = outcome("minio", **alone), outcome("coordl", **alone)
    assert dynamic.source_bytes == placed.source_bytes
    assert dynamic.epochs_s == pytest.approx(placed.epochs_s)
    assert dynamic.source_shares["ram"] == pytest.approx(2 / 9)


@pytest.mark.parametrize("policy", ("minio", "belady", "reuse"))
def test_a_cache_for_all_reads_shared_storage_once(policy: str) -> None:
    found = outcome(policy, **memory("1 GB"))
    assert found.source_bytes["shared"] == 300 * 40_000
    assert found.source_bytes["ram"] + found.source_bytes["remote ram"] == 2 * 300 * 40_000
    assert found.epochs_s[0] > 1.5 * found.epochs_s[1]


@pytest.mark.parametrize("policy", DYNAMIC)
def test_two_ranks_of_a_node_share_its_cache(policy: str) -> None:
    alone = {"system__nodes": 1, "system__ranks_per_node": 2, **memory("1 GB")}
    found = outcome(policy, **alone)
    assert found.source_bytes == {"ram": 2 * 300 * 40_000, "remote ram": 0, "shared": 300 * 40_000}
    assert 300 * 40_000 < found.memory_max_bytes <= 300 * 40_000 + 2 * 2_000_000


def test_who_knows_what_comes_has_the_most_hits() -> None:
    hits = {
        name: outcome(name, job__epochs=12, **memory("4 MB")).source_shares["ram"]
        for name in ("lru", "random", "minio", "belady")
    }
    assert max(hits, key=lambda name: hits[name]) == "belady"


@pytest.mark.parametrize("policy", ("lru", "random", "minio", "belady"))
def test_disks_hold_a_share_that_comes_while_the_job_runs(policy: str) -> None:
    rooms = [storage("ram", "2 MB", "8 GB/s"), storage("disk", "2 MB", "1 GB/s")]
    found = outcome(policy, classes=rooms, job__epochs=6)  # 12 MB of files
    assert (found.startup_bytes, found.startup_s) == (0, 0)
    assert 6e6 * 5 < found.source_bytes["disk"] + found.source_bytes["remote disk"] < 8e6 * 5
    in_memory = policy in ("minio", "belady")  # the memories divide the rest
    assert (found.source_bytes["remote ram"] > 0) == in_memory
    assert (found.source_bytes["shared"] < 1.1 * 12e6) == in_memory


def test_memory_that_is_left_caches_what_other_nodes_keep() -> None:
    found = outcome("belady", **memory("5 MB"), job__epochs=6)
    # Each node keeps 3 of 12 MB, and caches 2 MB of the others.
    assert found.source_shares["ram"] > 0.4
    assert found.source_bytes["shared"] == 300 * 40_000


def test_close_is_the_fanstore_of_the_paper() -> None:
    found = outcome("close", classes=[storage("ram", "5 MB", "8 GB/s")])
    assert found.startup_bytes == 300 * 40_000
    assert found.source_bytes["shared"] == 0
    assert found.source_shares["ram"] == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("policy", ("reuse", "belady"))
def test_a_full_temporary_directory_is_named(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("r+b", 0) as full:
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda: full)
        with pytest.raises(UsageError, match=f"{os.strerror(errno.ENOSPC)}; .* TMPDIR names"):
            outcome(policy)
    assert outcome("lru").epochs_s  # needs none


def test_no_temporary_directory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(UsageError, match="the temporary directory: No such file or directory; "):
        outcome("belady")


def test_says_why_a_policy_cannot_run() -> None:
    found = simulate(scenario(**SLOW, system__nodes=2), ["close"]).policies["close"]
    assert found == "the dataset (11.4 MiB) exceeds the storage classes of all nodes (5.7 MiB)"
    bare = simulate(scenario(classes=[]), [*DYNAMIC, "close"]).policies
    for name in DYNAMIC:
        assert bare[name] == "the scenario has no memory (first storage class)"
    assert bare["close"] == "the scenario has no storage class"
