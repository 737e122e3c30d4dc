"""The samplers for torch beside DistributedSampler, over ranks and epochs, and with wrong input."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from fanstore.torch import LocalitySampler, OpportunisticSampler  # noqa: E402

KINDS = (
    (OpportunisticSampler, {"memory_share": 0.25, "read_samples": 8, "level_min": 0.5}),
    (LocalitySampler, {"batch_size": 4}),
)
each_kind = pytest.mark.parametrize(("kind", "options"), KINDS, ids=("opportunistic", "locality"))


def numbers(count: int) -> Any:
    return TensorDataset(torch.arange(count))


def read_by(samplers: list[Any], epoch: int) -> list[list[int]]:
    for sampler in samplers:
        sampler.set_epoch(epoch)
    return [list(sampler) for sampler in samplers]


@each_kind
@pytest.mark.parametrize("drop_last", (False, True))
@pytest.mark.parametrize(("count", "ranks"), ((1000, 4), (1001, 4), (999, 3), (130, 1)))
def test_every_sample_is_read_once_an_epoch(
    kind: Any, options: Any, count: int, ranks: int, drop_last: bool
) -> None:
    samplers = [
        kind(numbers(count), ranks, rank, drop_last=drop_last, **options) for rank in range(ranks)
    ]
    plain = DistributedSampler(numbers(count), ranks, 0, drop_last=drop_last)
    orders = []
    for epoch in range(3):
        reads = read_by(samplers, epoch)
        assert {len(each) for each in reads} == {len(plain)} == {len(each) for each in samplers}
        times = Counter(sample for each in reads for sample in each)
        assert sum(times.values()) == plain.total_size
        assert len(times) == min(count, plain.total_size)  # what is read twice is padding alone
        orders.append(reads)
    assert orders[0] != orders[1] != orders[2]
    assert read_by(samplers, 1) == orders[1]


@each_kind
def test_it_serves_a_loader_with_workers(kind: Any, options: Any) -> None:
    data = numbers(100)
    sampler = kind(data, 2, 1, **options)
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2)
    sampler.set_epoch(1)
    assert torch.cat([batch[0] for batch in loader]).tolist() == list(sampler)
    assert isinstance(sampler, DistributedSampler)  # so that Lightning does not replace it


@pytest.mark.parametrize(("ranks", "per_node"), ((4, 1), (4, 2), (6, 3), (3, 3)))
def test_steps_of_the_locality_sampler_are_those_of_torch(ranks: int, per_node: int) -> None:
    data, batch = numbers(1003), 5
    own = [
        LocalitySampler(data, ranks, rank, batch_size=batch, ranks_per_node=per_node, seed=9)
        for rank in range(ranks)
    ]
    plain = [DistributedSampler(data, ranks, rank, seed=9) for rank in range(ranks)]
    for epoch in range(3):
        ours, theirs = read_by(own, epoch), read_by(plain, epoch)
        for at in range(0, len(plain[0]), batch):
            steps = [
                Counter(s for each in of for s in each[at : at + batch]) for of in (ours, theirs)
            ]
            assert steps[0] == steps[1]
        if epoch:
            nodes = ranks // per_node
            assert own[0].local_share() > (1 / nodes + 0.3 if nodes > 1 else 0.99)


def test_each_rank_reads_what_it_keeps() -> None:
    """As far as a step has it: counted from what the ranks read, not from what is said."""
    keepers = np.random.default_rng(2).integers(-1, 4, 4000)
    samplers = [
        LocalitySampler(numbers(4000), 4, rank, batch_size=8, keepers=keepers) for rank in range(4)
    ]
    reads = read_by(samplers, 1)
    near = sum(keepers[sample] == rank for rank, each in enumerate(reads) for sample in each)
    assert near / 4000 == samplers[0].local_share() > 0.6  # a quarter with DistributedSampler
    best = 0
    order = np.array(read_by([DistributedSampler(numbers(4000), 4, r) for r in range(4)], 1))
    for at in range(0, order.shape[1], 8):
        held = Counter(keepers[order[:, at : at + 8]].ravel().tolist())
        best += sum(min(8, held[rank]) for rank in range(4))
    assert near == best


def test_the_level_is_said_and_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    sampler = OpportunisticSampler(numbers(2000), memory_share=0.25, read_samples=16)
    first = capsys.readouterr().err
    assert f"randomisation level {sampler.level:.1%}" in first and first.count("\n") == 1
    assert "125 reads of 16 samples an epoch" in first
    assert len(sampler.stretches(0)) == 125
    OpportunisticSampler(numbers(2000), 2, 1, memory_share=0.25)
    assert capsys.readouterr().err == ""  # rank 0 alone says it
    with pytest.raises(ValueError, match=r"level would be .*% with memory_share 0.1; .* gives 9"):
        OpportunisticSampler(numbers(2000), memory_share=0.1, read_samples=50, level_min=0.9)
    with pytest.raises(ValueError, match=r"memory_share 1\.00 gives 100\.0%"):
        OpportunisticSampler(numbers(2000), memory_share=0.5, level_min=1.0)


def test_a_seed_is_drawn_where_none_is_given() -> None:
    torch.manual_seed(3)
    seeds = {OpportunisticSampler(numbers(200), memory_share=1, seed=None).seed for _ in range(3)}
    assert len(seeds) == 3


@pytest.mark.parametrize(
    ("kind", "wrong"),
    (
        (OpportunisticSampler, {"memory_share": 0}), (OpportunisticSampler, {"memory_share": 1.5}),
        (OpportunisticSampler, {"memory_share": "a quarter"}),
        (OpportunisticSampler, {"memory_share": 0.1, "read_samples": 64}),
        (OpportunisticSampler, {"memory_share": 0.5, "read_samples": 0}),
        (OpportunisticSampler, {"memory_share": 0.5, "level_min": 2}),
        (LocalitySampler, {"batch_size": 0}), (LocalitySampler, {"batch_size": 4, "rank": 0}),
        (LocalitySampler, {"batch_size": 4, "num_replicas": 2, "rank": 2}),
        (LocalitySampler, {"batch_size": 4, "keepers": [0] * 99}),
        (LocalitySampler, {"batch_size": 4, "keepers": [1] * 100}),
        (LocalitySampler, {"batch_size": 4, "keepers": [0.5] * 100}),
        (LocalitySampler, {"batch_size": 4, "seed": "x"}),
        (LocalitySampler, {"batch_size": 4, "drop_last": 1}),
        (LocalitySampler, {"batch_size": 4, "num_replicas": 4, "rank": 0, "ranks_per_node": 3}),
        (LocalitySampler, {"batch_size": 4, "num_replicas": 200, "rank": 0, "drop_last": True}),
    ),
)  # fmt: skip
def test_arguments_out_of_range_are_refused(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        kind(numbers(100), **wrong)


def test_an_epoch_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="epoch is -1"):
        LocalitySampler(numbers(100), batch_size=4).set_epoch(-1)


def test_several_processes_without_a_group_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="init_process_group"):
        LocalitySampler(numbers(100), batch_size=4)
    with pytest.raises(RuntimeError, match="give seed"):
        LocalitySampler(numbers(100), 2, 0, batch_size=4, seed=None)


GROUP = """
import os, sys, torch
from torch import distributed
from fanstore.torch import OpportunisticSampler
distributed.init_process_group("gloo", init_method=sys.argv[1], rank=int(sys.argv[2]), world_size=2)
torch.manual_seed(int(sys.argv[2]))
sampler = OpportunisticSampler(range(200), memory_share=0.5, read_samples=8, seed=None)
print(sampler.seed, *sampler)
distributed.destroy_process_group()
"""


def test_ranks_of_a_group_agree_on_a_seed(tmp_path: Any) -> None:
    where = f"file://{tmp_path}/meet"
    ranks = [
        subprocess.Popen([sys.executable, "-c", GROUP, where, str(rank)], stdout=subprocess.PIPE)
        for rank in range(2)
    ]
    found = [rank.communicate(timeout=120)[0].split() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert found[0][0] == found[1][0]
    assert sorted(map(int, found[0][1:] + found[1][1:])) == list(range(200))
