"""What a small model learns in the opportunistic order, beside a full shuffle and an order that is
hardly one. The samples lie sorted by class, as in ImageFolder: the worst case."""

from __future__ import annotations

import statistics
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
    found = {
        name: [accuracy(training, make(seed), seed) for seed in range(SEEDS)]
        for name, make in orders.items()
    }
    mean = {name: statistics.mean(each) for name, each in found.items()}
    noise = max(statistics.stdev(found[name]) for name in ("full", "opportunistic"))
    print({name: f"{100 * each:.2f} %" for name, each in mean.items()}, f"noise {100 * noise:.2f}")
    assert abs(mean["full"] - mean["opportunistic"]) <= 2 * noise
    assert mean["full"] - mean["hardly shuffled"] > 2 * noise
