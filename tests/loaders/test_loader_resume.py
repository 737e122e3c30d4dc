"""A loader that goes on in the middle of an epoch gives what the first one would have."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from loader_sets import Mixed  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from fanstore.errors import UsageError  # noqa: E402
from fanstore.torch import DataLoader  # noqa: E402


def made(kind: str, **options: Any) -> DataLoader:
    dataset = Mixed()
    if kind == "distributed":
        options["sampler"] = DistributedSampler(dataset, 2, 1, seed=4)
    elif kind == "own generator":
        options.update(shuffle=True, generator=torch.Generator().manual_seed(9))
    else:
        options["shuffle"] = kind == "shuffled"
    return DataLoader(dataset, batch_size=4, **options)


def numbers(batches: Any) -> list[list[int]]:
    return [batch["number"].tolist() for batch in batches]


def saved(loader: DataLoader) -> Any:
    stream = io.BytesIO()
    torch.save(loader.state_dict(), stream)
    stream.seek(0)
    return torch.load(stream)


@pytest.mark.parametrize("kind", ("shuffled", "in order", "distributed", "own generator"))
@pytest.mark.parametrize("workers", (0, 2))
def test_a_loader_goes_on_where_another_was(kind: str, workers: int) -> None:
    torch.manual_seed(11)
    options: dict[str, Any] = {"num_workers": workers}
    if workers:
        options.update(persistent_workers=True)
    whole = made(kind, **options)
    first = numbers(whole)
    begun = iter(whole)
    for _ in range(3):
        next(begun)
    state = saved(whole)
    rest = numbers(begun)
    later = torch.get_rng_state()
    again = numbers(whole)

    resumed = made(kind, **options)
    torch.manual_seed(99)
    resumed.load_state_dict(state)
    batches = iter(resumed)
    assert numbers([next(batches)]) == rest[:1]
    assert resumed.state_dict()["batches"] == 4
    assert numbers(batches) == rest[1:]
    torch.set_rng_state(later)
    assert numbers(resumed) == again
    assert len(again) == len(first)


def test_between_epochs_the_next_one_begins() -> None:
    loader = made("own generator")
    numbers(loader)
    state = saved(loader)
    other = made("own generator")
    other.load_state_dict(state)
    assert numbers(other) == numbers(loader)


def test_states_of_other_loaders_are_refused() -> None:
    state = made("shuffled").state_dict()
    with pytest.raises(UsageError, match=r"'batch_size': 4.*'batch_size': 3"):
        DataLoader(Mixed(), batch_size=3).load_state_dict(state)
    with pytest.raises(UsageError, match="not with"):
        made("own generator").load_state_dict(state)
    with pytest.raises(UsageError, match="state_dict returned"):
        made("shuffled").load_state_dict({"epoch": 3})


def test_iterable_datasets_have_no_state() -> None:
    class Numbers(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter(range(3))

    with pytest.raises(UsageError, match="IterableDataset"):
        DataLoader(Numbers()).state_dict()
