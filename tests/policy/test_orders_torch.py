"""Access orders against torch itself, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fanstore.policy.orders.registry import orders, strided
from fanstore.policy.orders.torch_samplers import randperm

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")

COUNT = 103


def epoch(loader: Any) -> list[int]:
    return [int(index) for batch in loader for index in batch]


def loader(**options: Any) -> Any:
    return data.DataLoader(range(COUNT), batch_size=8, **options)


@pytest.mark.parametrize("seed", (0, 42, 2**40 + 5, -1))
@pytest.mark.parametrize("count", (1, 2, 1000, 100_003))
def test_randperm(count: int, seed: int) -> None:
    expected = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    assert np.array_equal(randperm(count, seed), expected.numpy())


@pytest.fixture
def default_generator() -> Iterator[None]:
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


@pytest.mark.parametrize("validations", (0, 1, 2))
def test_shuffle(validations: int, default_generator: None) -> None:
    torch.manual_seed(123)
    training, validation = loader(shuffle=True), loader()
    ours = orders("torch-random", COUNT, seed=123, words_per_epoch=4 + 2 * validations)
    for _ in range(4):
        assert epoch(training) == next(ours).tolist()
        for _ in range(validations):
            epoch(validation)


@pytest.mark.parametrize("replacement", (False, True))
@pytest.mark.parametrize("num_samples", (None, 50, 206, 250))
def test_random_sampler(
    num_samples: int | None, replacement: bool, default_generator: None
) -> None:
    of: dict[str, Any] = {"num_samples": num_samples, "replacement": replacement}
    torch.manual_seed(9)
    real = loader(sampler=data.RandomSampler(range(COUNT), **of))
    ours = orders("torch-random", COUNT, seed=9, **of)
    for _ in range(3):
        assert epoch(real) == next(ours).tolist()
    for words_before in (0, 2):
        generator = torch.Generator().manual_seed(9)
        sampler = data.RandomSampler(range(COUNT), generator=generator, **of)
        real = loader(sampler=sampler, generator=generator if words_before else None)
        ours = orders("torch-generator", COUNT, seed=9, words_before=words_before, **of)
        for _ in range(3):
            assert epoch(real) == next(ours).tolist()


@pytest.mark.parametrize("validations", (0, 1))
def test_subset_random_sampler(validations: int, default_generator: None) -> None:
    indices = list(range(0, COUNT, 3))
    torch.manual_seed(7)
    training, validation = loader(sampler=data.SubsetRandomSampler(indices)), loader()
    words = {"words_between": 2 + 2 * validations}
    ours = orders("torch-subset-random", COUNT, seed=7, indices=indices, **words)
    for _ in range(3):
        assert epoch(training) == next(ours).tolist()
        for _ in range(validations):
            epoch(validation)
    own = data.SubsetRandomSampler(indices, generator=torch.Generator().manual_seed(7))
    ours = orders("torch-subset-random", COUNT, seed=7, indices=indices, words_before=0)
    for _ in range(3):
        assert epoch(loader(sampler=own)) == next(ours).tolist()


@pytest.mark.parametrize("replacement", (False, True))
@pytest.mark.parametrize("num_samples", (1, 50, 90))
def test_weighted_random_sampler(
    num_samples: int, replacement: bool, default_generator: None
) -> None:
    weights = np.random.default_rng(4).random(COUNT) * (np.arange(COUNT) % 9 > 0)
    of: dict[str, Any] = {"num_samples": num_samples, "replacement": replacement}
    torch.manual_seed(12)
    real = loader(sampler=data.WeightedRandomSampler(weights, **of))
    ours = orders("torch-weighted-random", COUNT, seed=12, weights=weights, **of)
    for _ in range(3):
        assert epoch(real) == next(ours).tolist()


@pytest.mark.parametrize("set_epoch", (False, True))
@pytest.mark.parametrize("drop_last", (False, True))
@pytest.mark.parametrize("shuffle", (False, True))
@pytest.mark.parametrize(("count", "world_size"), ((103, 1), (103, 4), (104, 4), (3, 7)))
def test_distributed_sampler(
    count: int, world_size: int, shuffle: bool, drop_last: bool, set_epoch: bool
) -> None:
    of: dict[str, Any] = {"shuffle": shuffle, "drop_last": drop_last, "seed": 11}
    samplers = [
        data.DistributedSampler(range(count), world_size, rank, **of) for rank in range(world_size)
    ]
    ours = orders("torch-distributed", count, world_size=world_size, set_epoch=set_epoch, **of)
    for number in range(3):
        order = next(ours)
        for rank, sampler in enumerate(samplers):
            if set_epoch:
                sampler.set_epoch(number)
            assert list(sampler) == strided(order, rank, world_size).tolist()
