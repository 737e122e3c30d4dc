"""fanstore.torch.Job beside a loop with DistributedSampler: orders, and states at any batch."""

from __future__ import annotations

import io
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from loader_sets import Mixed  # noqa: E402
from torch.utils.data.distributed import DistributedSampler  # noqa: E402

from fanstore.errors import UsageError  # noqa: E402
from fanstore.in_job.samplers import described  # noqa: E402
from fanstore.torch import Job  # noqa: E402

EPOCHS = 3


def made(**options: Any) -> Job:
    return Job(Mixed(), 4, EPOCHS, **{"seed": 5, "num_replicas": 2, "rank": 1, **options})


def numbers(batches: Any) -> list[list[int]]:
    return [batch["number"].tolist() for batch in batches]


def saved(job: Job) -> Any:
    stream = io.BytesIO()
    torch.save(job.state_dict(), stream)
    stream.seek(0)
    return torch.load(stream)


def resumed(state: Any, **options: Any) -> list[list[list[int]]]:
    job = made(**options)
    job.load_state_dict(state)
    again = saved(job)
    assert (again["epoch"], again["loader"]["batches"]) == (
        state["epoch"], state["loader"]["batches"] * (not state["loader"]["between"]),
    )  # fmt: skip
    return [numbers(batches) for batches in job]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_order_is_that_of_torchs_sampler(drop_last: bool, workers: int) -> None:
    dataset = Mixed()
    sampler = DistributedSampler(dataset, 2, 1, seed=5, drop_last=drop_last)
    loader = torch.utils.data.DataLoader(dataset, 4, sampler=sampler, drop_last=drop_last)
    expected = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        expected.append(numbers(loader))
    job = made(drop_last=drop_last, num_workers=workers)
    assert len(job) == EPOCHS
    assert [numbers(batches) for batches in job] == expected
    assert len(job) == 0
    assert list(job) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_a_job_goes_on_where_another_was(workers: int) -> None:
    options: dict[str, Any] = {"num_workers": workers, "persistent_workers": workers > 0}
    whole = [numbers(batches) for batches in made(**options)]
    job = made(**options)
    assert resumed(saved(job), **options) == whole
    for batches in job:
        for given, _ in enumerate(batches, 1):
            if job.epoch == 1 and given == 2:
                rest = [whole[1][2:], *whole[2:]]
                assert resumed(saved(job), **options) == rest
        assert resumed(saved(job), **options) == whole[job.epoch + 1 :]


def test_a_job_goes_on_after_an_epoch_that_was_left() -> None:
    whole = [numbers(batches) for batches in made()]
    epochs = iter(made_ := made())
    next(iter(next(epochs)))
    next(epochs)
    assert resumed(saved(made_)) == whole[1:]


def test_its_last_epoch_is_announced_as_such() -> None:
    said = []
    for batches in made():
        found = described(torch, batches.batch_sampler)
        assert found is not None
        said.append(found[0]["is_last"])
    assert said == [False, False, True]


def test_a_seed_is_drawn_from_torchs_generator() -> None:
    torch.manual_seed(8)
    first = Job(Mixed(), 4, 1)
    torch.manual_seed(8)
    assert Job(Mixed(), 4, 1).seed == first.seed != Job(Mixed(), 4, 1).seed


@pytest.mark.parametrize("state", [{}, None, {"epoch": 0, "loader": {}}])
def test_what_is_no_state_is_refused(state: Any) -> None:
    with pytest.raises(UsageError, match=r"Job\.state_dict"):
        made().load_state_dict(state)


def test_states_of_other_jobs_are_refused() -> None:
    with pytest.raises(UsageError, match="seed 5 and 3 epochs; this one has seed 6 and 3"):
        made(seed=6).load_state_dict(saved(made()))
    with pytest.raises(UsageError, match="'batch_size': 4"):
        Job(Mixed(), 5, EPOCHS, seed=5).load_state_dict(saved(made()))


@pytest.mark.parametrize("option", ["sampler", "batch_sampler", "shuffle"])
def test_another_order_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"leave {option} out"):
        made(**{option: None})


@pytest.mark.parametrize(
    ("name", "value"), [("epochs", 0), ("epochs", 1.5), ("seed", "x"), ("drop_last", 1)]
)
def test_wrong_numbers_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Job(Mixed(), 4, **{"epochs": 2, name: value})
