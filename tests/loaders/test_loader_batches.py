"""fanstore.torch.DataLoader beside torch's own: batches and random numbers, bit for bit."""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from loader_sets import Mixed, assert_same, packed, records  # noqa: E402

from fanstore.torch import DataLoader, FileDataset  # noqa: E402

TORCHS = torch.utils.data.DataLoader


class Counting(torch.utils.data.IterableDataset):
    def __iter__(self) -> Any:
        worker = torch.utils.data.get_worker_info()
        yield from (torch.tensor([worker.id, n]) for n in range(5 + worker.id))


def in_containers(samples: list[Any]) -> Any:
    """Collates into what torch's own collation does not make, and into other kinds of tensors."""
    numbers = torch.tensor([sample["number"] for sample in samples])
    images = torch.stack([sample["image"] for sample in samples])
    return {
        "numbers": numbers, "channels last": images.to(memory_format=torch.channels_last),
        "sparse": torch.eye(3).to_sparse(), "part": images[:, 1], "none": None,
        "arrays": [sample["array"] for sample in samples], "scalar": torch.tensor(3.5),
        "bytes": [b"x" * n for n in range(3)],
    }  # fmt: skip


def drawn() -> list[Any]:
    return [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]


def both(dataset: Any, **options: Any) -> list[tuple[list[Any], list[Any]]]:
    """Returns what two epochs of each loader give, kept, and the generators' states after."""
    found = []
    for kind in (TORCHS, DataLoader):
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        loader = kind(dataset, **options)
        found.append(([*loader, *loader], drawn()))
    return found


OPTIONS = {
    "workers": {"batch_size": 4, "shuffle": True, "num_workers": 2},
    "alone": {"batch_size": 4, "shuffle": True},
    "one by one": {"batch_size": None, "num_workers": 2},
    "drop last": {"batch_size": 5, "drop_last": True, "num_workers": 3, "prefetch_factor": 1},
    "persistent": {"batch_size": 4, "num_workers": 2, "persistent_workers": True},
    "own collation": {"batch_size": 4, "num_workers": 2, "collate_fn": in_containers},
    "list collation": {"batch_size": 4, "num_workers": 2, "collate_fn": list},
    "batches": {"batch_sampler": [[3, 1], [7], [0, 2, 4]], "num_workers": 2},
    "weighted": {
        "sampler": torch.utils.data.WeightedRandomSampler([1.0] * 43, 20), "num_workers": 1,
    },
}  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_batches_and_random_numbers_are_those_of_torch(options: dict[str, Any]) -> None:
    (expected, state), (found, own_state) = both(Mixed(), **options)
    assert_same(found, expected)
    assert own_state == state


def test_spawned_workers_give_the_same() -> None:
    (expected, _), (found, _) = both(
        Mixed(9), batch_size=4, num_workers=1, multiprocessing_context="spawn"
    )
    assert_same(found, expected)


def test_iterable_datasets_give_the_same() -> None:
    (expected, _), (found, _) = both(Counting(), batch_size=2, num_workers=2)
    assert_same(found, expected)


def test_a_generator_of_ones_own_is_advanced_alike() -> None:
    states = []
    for kind in (TORCHS, DataLoader):
        generator = torch.Generator().manual_seed(5)
        loader = kind(Mixed(), batch_size=4, shuffle=True, num_workers=1, generator=generator)
        states.append(([batch["number"].tolist() for batch in loader], generator.get_state()))
    assert states[0][0] == states[1][0]
    assert states[0][1].equal(states[1][1])


def test_memory_is_used_again_and_not_while_the_program_has_it() -> None:
    loader = DataLoader(Mixed(400), batch_size=4, num_workers=1, prefetch_factor=2)
    places, kept = set(), []
    for number, batch in enumerate(loader):
        places.add(batch["image"].data_ptr())
        if number in (3, 50):
            kept.append((number, batch["number"]))
    # Four slots for a worker that is two batches ahead, and now and then memory of torch's own.
    assert len(places) < 50
    assert [part.tolist() for _, part in kept] == [
        list(range(4 * number, 4 * number + 4)) for number, _ in kept
    ]


def keeping(samples: list[Any], kept: list[Any] = []) -> Any:  # noqa: B006
    """Collates, and gives the batch before, which this worker still has, as well."""
    kept.append(
        torch.utils.data.default_collate([sample["number"] + torch.zeros(1) for sample in samples])
    )
    return kept[-2:]


def test_what_a_worker_keeps_of_its_batches_stays_as_it_is() -> None:
    (expected, _), (found, _) = both(Mixed(), batch_size=4, num_workers=1, collate_fn=keeping)
    assert_same(found, expected)


def test_a_forked_child_gives_nothing_free() -> None:
    loader = DataLoader(Mixed(400), batch_size=4, num_workers=1)
    batches = iter(loader)
    first = next(batches)["image"]
    copy = first.clone()
    child = os.fork()
    if child == 0:
        del first
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    for _ in batches:
        pass
    assert first.equal(copy)


@pytest.mark.parametrize("kind", ("directory", "packed"))
def test_records_are_read_into_batches(tmp_path: Path, kind: str) -> None:
    source = records(tmp_path / "records")
    dataset = FileDataset(source if kind == "directory" else packed(source))
    (expected, _), (found, _) = both(dataset, batch_size=4, shuffle=True, num_workers=2)
    assert_same(found, expected)
    part = torch.utils.data.Subset(dataset, [5, 2, 9])
    (expected, _), (found, _) = both(part, batch_size=2, num_workers=1)
    assert_same(found, expected)


def test_records_of_other_sizes_raise_what_torch_raises(tmp_path: Path) -> None:
    source = records(tmp_path / "records")
    (source / "folder-1" / "longer").write_bytes(b"x" * 513)
    for kind in (TORCHS, DataLoader):
        with pytest.raises(RuntimeError, match="equal size"):
            list(kind(FileDataset(source), batch_size=31, num_workers=1))
    found = list(DataLoader(FileDataset(source), batch_size=31, num_workers=1, collate_fn=list))
    assert sorted({len(sample) for sample in found[0]}) == [512, 513]
