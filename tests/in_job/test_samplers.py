"""What is announced of torch's samplers, against what they draw."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fanstore.foresight.order.samplers import samples
from fanstore.in_job.samplers import described

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")

_COUNT = 101
_THINGS = range(_COUNT)


def generator(seed: int = 7, drawn: int = 0) -> Any:
    made = torch.Generator().manual_seed(seed)
    torch.randint(10, (drawn,), generator=made)
    return made


def complete(found: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns what is announced once the length is known."""
    sampler, parts, sized = found
    return (sampler if sized is None else {**sampler, "samples": len(sized)}), parts


def distributed(**options: Any) -> Any:
    return data.DistributedSampler(_THINGS, num_replicas=3, **options)


def later(sampler: Any) -> Any:
    sampler.set_epoch(5)
    return sampler


SAMPLERS: dict[str, Callable[[], Any]] = {
    "random": lambda: data.RandomSampler(_THINGS),
    "own": lambda: data.RandomSampler(_THINGS, generator=generator()),
    "half-drawn": lambda: data.RandomSampler(_THINGS, generator=generator(drawn=300)),
    "all-drawn": lambda: data.RandomSampler(_THINGS, generator=generator(drawn=624)),
    "more": lambda: data.RandomSampler(_THINGS, num_samples=250, generator=generator()),
    "replaced": lambda: data.RandomSampler(_THINGS, replacement=True, num_samples=70),
    "sequential": lambda: data.SequentialSampler(_THINGS),
    "distributed": lambda: distributed(rank=1),
    "distributed-epoch": lambda: later(distributed(rank=2, seed=3)),
    "distributed-drop": lambda: distributed(rank=2, drop_last=True),
    "distributed-plain": lambda: distributed(rank=0, shuffle=False),
    "subset": lambda: data.SubsetRandomSampler(range(5, 60, 3)),
    "subset-own": lambda: data.SubsetRandomSampler([4, 4, 9], generator=generator()),
    "weighted": lambda: data.WeightedRandomSampler([1, 0, 5, 2], 90),
    "weighted-once": lambda: data.WeightedRandomSampler([1.5, 0.5, 5, 2], 3, replacement=False),
}


def state() -> bytes:
    return bytes(torch.get_rng_state().tolist())


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("drop_last", [False, True])
def test_samples_are_those_that_are_drawn(name: str, drop_last: bool) -> None:
    torch.manual_seed(11)
    torch.rand(1000)
    sampler = data.BatchSampler(SAMPLERS[name](), 8, drop_last)
    before = state()
    found = described(torch, sampler)
    assert state() == before
    assert found is not None
    drawn = [index for batch in sampler for index in batch]
    assert samples(*complete(found)).tolist() == drawn
    assert found[0]["batch"] == 8


def test_samples_of_a_sampler_without_batches() -> None:
    torch.manual_seed(1)
    sampler = data.RandomSampler(_THINGS)
    found = described(torch, sampler)
    assert found is not None
    assert samples(*complete(found)).tolist() == list(sampler)


class Backwards(data.RandomSampler):  # type: ignore[misc]
    def __iter__(self) -> Any:
        return iter(list(super().__iter__())[::-1])


class Renamed(data.RandomSampler):  # type: ignore[misc]
    pass


def test_samplers_with_code_of_their_own_are_not_known() -> None:
    assert described(torch, Backwards(_THINGS)) is None
    assert described(torch, data.BatchSampler(Backwards(_THINGS), 4, False)) is None
    assert described(torch, [[1, 2], [3]]) is None
    assert described(torch, Renamed(_THINGS)) is not None


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("rank", [0, 2])
def test_accelerate(drop_last: bool, even: bool, split: bool, rank: int) -> None:
    loaders = pytest.importorskip("accelerate.data_loader")
    sampler = loaders.SeedableRandomSampler(_THINGS, data_seed=42)
    sampler.set_epoch(3)
    batches = data.BatchSampler(sampler, 9, drop_last)
    if split and not even:
        even = True  # accelerate refuses the other for batches that cannot be split evenly
    shard = loaders.BatchSamplerShard(batches, 3, rank, split_batches=split, even_batches=even)
    for of in (batches, shard):
        found = described(torch, of)
        assert found is not None
        sampler.set_epoch(3)
        drawn = [index for batch in of for index in batch]
        sampler.set_epoch(3)
        assert samples(*complete(found)).tolist() == drawn


RIGHT = {
    "kind": "RandomSampler", "samples": 101, "drawn": 101, "replacement": False, "batch": 8,
    "drop_last": False, "own_generator": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [{"kind": "Odd"}, {"kind": None}, {"kind": ["RandomSampler"]}, {"samples": 0}, {"samples": "9"},
     {"samples": 2**40}, {"drawn": -1}, {"drawn": 2**28}, {"replacement": 1}, {"batch": 0},
     {"batch": 1.5}, {"drop_last": None}, {"state": "zz"}, {"state": ""}, {"state": "00" * 5056},
     {"state": "ff" * 5056}, {"state": 5}, {"own_generator": "yes"},
     {"kind": "SubsetRandomSampler"}, {"kind": "WeightedRandomSampler"},
     {"shard": 5}, {"shard": {"rank": 3, "world_size": 3, "even": True}},
     {"shard": {"rank": 0, "world_size": 3}},
     {"kind": "DistributedSampler", "shuffle": True, "pads": True, "rank": 3, "world_size": 3,
      "seed": 0},
     {"kind": "DistributedSampler", "shuffle": True, "pads": True, "rank": 0, "world_size": 3,
      "seed": 2**70}],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    right = {**RIGHT, "state": bytes(generator().get_state().tolist()).hex()}
    assert len(samples(right, {})) == 101
    with pytest.raises(ValueError):
        samples({**copy.copy(right), **change}, {})


@pytest.mark.parametrize(
    ("kind", "parts"),
    [("SubsetRandomSampler", {"indices": b"1234567"}), ("SubsetRandomSampler", {"indices": b""}),
     ("WeightedRandomSampler", {"weights": np.full(3, np.nan).tobytes()}),
     ("WeightedRandomSampler", {"weights": np.zeros(3).tobytes()})],
)  # fmt: skip
def test_parts_that_make_no_sense_are_refused(kind: str, parts: dict[str, bytes]) -> None:
    right = {**RIGHT, "kind": kind, "state": bytes(generator().get_state().tolist()).hex()}
    with pytest.raises(ValueError):
        samples(right, parts)
