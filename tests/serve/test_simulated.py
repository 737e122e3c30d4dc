"""A live node reads as much from the shared file system as the simulator says, under each cache
policy: one order of reads, one configuration."""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from pathlib import Path

import pytest
from serving import make_stage

from fanstore.messages.channel import connect
from fanstore.messages.message import from_line
from fanstore.messages.requests import AskStatus
from fanstore.policy.orders.registry import reads_of_ranks
from fanstore.study.simulate.engine import simulate
from fanstore.study.simulate.results import PolicyOutcome
from fanstore.study.simulate.scenario import scenario_from

FILES, FILE_BYTES, EPOCHS = 600, 65_536, 4
CACHE_BYTES = 192 * FILE_BYTES
ORDER = {"name": "torch-random", "seed": 3}

READ = """
import json, sys
for epoch in json.load(open(sys.argv[2])):
    for name in epoch:
        with open(f"{sys.argv[1]}/{name}", "rb") as stream:
            stream.read()
"""


def simulated_bytes(policy: str) -> int:
    curve = {"threads": [1], "rate": ["10 GB/s"]}
    ram = {"name": "ram", "capacity": f"{CACHE_BYTES} B", "threads": 1, "read": curve,
           "write": curve}  # fmt: skip
    scenario = scenario_from("gate", {
        "about": "a node alone",
        "system": {
            "nodes": 1, "ranks_per_node": 1, "compute": "1 GB/s", "preprocess": "1 GB/s",
            "shared": {"readers": [1], "rate": ["1 GB/s"], "readers_per_rank": 1},
            "staging_buffer": {"capacity": "10 MB", "threads": 1, "write": curve},
            "classes": [ram],
        },
        "dataset": {"sizes": "fixed", "files": FILES, "size": f"{FILE_BYTES} B"},
        "job": {"epochs": EPOCHS, "batch": 8, "order": ORDER},
    })  # fmt: skip
    found = simulate(scenario, [policy]).policies[policy]
    assert isinstance(found, PolicyOutcome)
    return found.source_bytes["shared"]


@pytest.mark.parametrize("policy", ("lru", "random", "minio", "belady"))
def test_shared_bytes_are_those_of_the_simulator(policy: str, tmp_path: Path) -> None:
    stage = make_stage(tmp_path)
    stage.source(files={f"f{n:03}": os.urandom(FILE_BYTES) for n in range(FILES)})
    dataset = stage.dataset(stage.path / "plain", "data", "--partitions", "1")
    coming = islice(reads_of_ranks(str(ORDER["name"]), FILES, 1, seed=ORDER["seed"]), EPOCHS)
    epochs = [[f"f{n:03}" for n in ranks[0].tolist()] for ranks in coming]
    (tmp_path / "epochs").write_text(json.dumps(epochs))
    (tmp_path / "order").write_text("\n\n".join("\n".join(each) for each in epochs) + "\n")
    order = str(tmp_path / "order") if policy == "belady" else "off"
    mount = stage.path / "mount"
    stage.call("start", "--dataset", str(dataset), "--mount", str(mount), "--stage", "lazy",
               "--local-bytes", "0", "--cache-bytes", str(CACHE_BYTES), "--cache-policy", policy,
               "--order", order)  # fmt: skip
    try:
        argv = [sys.executable, "-c", READ, str(mount), str(tmp_path / "epochs")]
        stage.call("exec", "--", *argv)
        (described,) = stage.local.glob(".fanstore-*/jobs/*/job.json")
        channel = connect(str(described.parent))
        channel.send(AskStatus())
        line = channel.receive_line()
        channel.close()
        assert line is not None
        live = from_line(line)["node"]["shared_bytes"]
    finally:
        stage.call("stop")
    # If the order is known, what is fetched ahead has room beside the cache (docs/prefetch.md).
    beside = 3 * 2**20 * (EPOCHS - 1) if policy == "belady" else 0
    simulated = simulated_bytes(policy)
    assert 0.97 * simulated - beside <= live <= 1.03 * simulated
