"""What a small model learns in the opportunistic order, beside a full shuffle and an order that is
hardly one. The samples lie sorted by class, as in ImageFolder: the worst case."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from fanstore.torch import OpportunisticSampler  # noqa: E402

CLASSES, EACH, WIDTH, EPOCHS, SEEDS = 10, 300, 16, 4, 5


def samples(each: int, seed: int) -> Any:
    """Clouds around ten points, which overlap; sorted by the point."""
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(CLASSES).repeat_interleave(each)
    noise = torch.randn(len(labels), WIDTH, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(centres[labels] + 1.2 * noise, labels)


def accuracy(training: Any, sampler: Any, seed: int) -> float:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 32), torch.nn.ReLU(), torch.nn.Linear(32, CLASSES)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loader = DataLoader(training, batch_size=30, sampler=sampler)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    inputs, labels = samples(500, 3).tensors
    return float((model(inputs).argmax(1) == labels).float().mean())


def means(
    training: Any, orders: dict[str, Callable[[int], Any]], alike: tuple[str, str]
) -> tuple[dict[str, float], float]:
    """The mean accuracy with each order over the seeds, and the larger deviation of two of them."""
    found = {
        name: [accuracy(training, make(seed), seed) for seed in range(SEEDS)]
        for name, make in orders.items()
    }
    mean = {name: statistics.mean(each) for name, each in found.items()}
    noise = max(statistics.stdev(found[name]) for name in alike)
    print({name: f"{100 * each:.2f} %" for name, each in mean.items()}, f"noise {100 * noise:.2f}")
    return mean, noise


class NoMemory:
    """Makes a rank draw from a memory of its own, and reads nothing."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def room_bytes(self, samples: int) -> int:
        return samples

    def read(self, stretch: range) -> None:
        pass

    def clear(self) -> None:
        pass


class Together:
    """The order in which all ranks together train: gradients of a step are averaged."""

    def __init__(self, training: Any, ranks: int, seed: int, share: float, stretch: int) -> None:
        self.samplers = [
            OpportunisticSampler(
                training, ranks, rank, memory_share=share, read_samples=stretch, level_min=0.0,
                seed=seed, memory=NoMemory(len(training)),  # type: ignore[arg-type]
            )
            for rank in range(ranks)
        ]  # fmt: skip

    def set_epoch(self, epoch: int) -> None:
        for each in self.samplers:
            each.set_epoch(epoch)

    def __iter__(self) -> Any:
        return iter([sample for step in zip(*self.samplers, strict=True) for sample in step])

    def __len__(self) -> int:
        return sum(map(len, self.samplers))


class Blocks:
    """Shuffled blocks of neighbours in a fixed order (the paper's figure 7)."""

    def __init__(self, training: Any, block: int, seed: int) -> None:
        self.count, self.block, self.seed, self.epoch = len(training), block, seed, 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Any:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        drawn = torch.randperm(self.count // self.block, generator=generator).tolist()
        return iter([each * self.block + n for each in drawn for n in range(self.block)])

    def __len__(self) -> int:
        return self.count


@pytest.mark.soak
@pytest.mark.parametrize("ranks", (2, 4))
def test_ranks_with_memories_of_their_own_learn_as_well(ranks: int) -> None:
    torch.set_num_threads(1)
    training = samples(EACH, 2)
    orders = {
        "full": lambda seed: DistributedSampler(training, 1, 0, seed=seed),
        "a quarter": lambda seed: Together(training, ranks, seed, 0.25, 30),
        "blocks of 4": lambda seed: Blocks(training, 4, seed),
        "blocks of 20": lambda seed: Blocks(training, 20, seed),
        "blocks of 150": lambda seed: Blocks(training, 150, seed),
    }
    mean, noise = means(training, orders, ("full", "a quarter"))
    assert mean["full"] - mean["a quarter"] <= 2 * noise
    assert mean["full"] - mean["blocks of 150"] > 2 * noise


def test_it_learns_as_well_as_with_a_full_shuffle() -> None:
    """Over five seeds: the means differ by no more than the runs of each do."""
    torch.set_num_threads(1)
    training = samples(EACH, 2)

    def opportunistic(share: float, stretch: int, seed: int) -> Any:
        return OpportunisticSampler(
            training, memory_share=share, read_samples=stretch, level_min=0.0, seed=seed
        )

    orders = {
        "full": lambda seed: DistributedSampler(training, 1, 0, seed=seed),
        "opportunistic": lambda seed: opportunistic(0.25, 30, seed),
        "hardly shuffled": lambda seed: opportunistic(0.1, 150, seed),
    }
    mean, noise = means(training, orders, ("full", "opportunistic"))
    assert abs(mean["full"] - mean["opportunistic"]) <= 2 * noise
    assert mean["full"] - mean["hardly shuffled"] > 2 * noise
