"""A dataset that reads its list of files in an order of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fanstore.foresight.announcement import Announcement, Name
from fanstore.foresight.loaders import Loaders, Opened
from fanstore.foresight.order.samplers import samples
from fanstore.foresight.sample_files import Learnt
from fanstore.foresight.sink import Sink
from fanstore.node.opens import READ

COUNT, PID = 400, 7
NAME = Name("job.Permuted", 5)
ORDER = np.random.default_rng(1).permutation(COUNT)
SAID = Announcement(
    pid=PID, loader=0, dataset=0, workers=0, prefetch_factor=1, in_order=True, files_per_sample=1,
    sampler={"kind": "SequentialSampler", "samples": COUNT, "batch": 1, "drop_last": False},
    parts={"paths": b"f\0" * COUNT},
)  # fmt: skip


def opened() -> list[Opened]:
    return [(frozenset({PID}), {0: ORDER.astype(np.uint64)})]


def test_its_samples_are_learnt_in_place_of_the_list() -> None:
    doubts: list[None] = []
    learnt = Learnt()
    loaders = Loaders(
        lambda _, count: [(0, np.arange(count, dtype=np.uint64))], Sink(), learnt,
        lambda: doubts.append(None),
    )  # fmt: skip
    loaders.announce(SAID)
    loaders.note(opened())
    assert doubts == [None]
    by_name = replace(SAID, parts={}, name=NAME)  # as the program sends it once it is told
    with pytest.raises(ValueError, match="learnt while they are read"):
        loaders.announce(by_name)
    reads = np.zeros(COUNT, READ)
    reads["dataset"], reads["sample"], reads["file"] = NAME.number, np.arange(COUNT), ORDER
    reads["visit"] = np.arange(COUNT)
    learnt.note(reads)
    before = loaders.figures().predicted
    loaders.announce(by_name)
    loaders.note(opened())
    assert loaders.figures().predicted - before > 0.9 * COUNT


def test_a_list_that_is_right_stays() -> None:
    doubts: list[None] = []
    loaders = Loaders(
        lambda _, count: [(0, ORDER[:count].astype(np.uint64))], Sink(),
        doubt=lambda: doubts.append(None),
    )  # fmt: skip
    for parts in (SAID.parts, {}):
        loaders.announce(replace(SAID, parts=parts, name=NAME if not parts else None))
        loaders.note(opened())
    assert (doubts, loaders.figures().predicted) == ([], 2 * COUNT)


def test_files_that_samples_draw_are_not_of_the_next_epoch() -> None:
    """Each sample opens its own file, and another one by chance."""
    count, chance = 3000, np.random.default_rng(2)
    loaders = Loaders(lambda _, count: [(0, np.arange(count, dtype=np.uint64))], Sink())
    said = replace(SAID, workers=2, prefetch_factor=2, parts={"paths": b"f\0" * count})
    for seed in range(4):
        sampler = {
            "kind": "DistributedSampler", "samples": count, "batch": 50, "drop_last": False,
            "seed": seed, "shuffle": True, "pads": True, "rank": 0, "world_size": 1,
        }  # fmt: skip
        loaders.announce(replace(said, sampler=sampler))
        order = samples(sampler, {})
        for begin in range(0, count, 50):
            own = order[begin : begin + 50]
            both = np.column_stack([own, chance.integers(count, size=50)]).ravel()
            loaders.note([(frozenset({PID}), {0: both.astype(np.uint64)})])
    figures = loaders.figures()
    assert (figures.broken, figures.predicted) == (0, 4 * count)


def test_opens_that_one_loader_left_are_kept_for_the_next() -> None:
    def find(paths: Any, count: int) -> Any:
        return [(0, int(paths.split(b"\0")[0]) + np.arange(count, dtype=np.uint64))]

    def announce(loader: int) -> None:
        paths = b"%d\0" % (loader * COUNT) + b"f\0" * (COUNT - 1)
        loaders.announce(replace(SAID, loader=loader, dataset=loader, parts={"paths": paths}))

    def note(*records: int) -> None:
        loaders.note([(frozenset({PID}), {0: np.array(records, np.uint64)})])

    loaders = Loaders(find, Sink())
    announce(0)
    note(*range(COUNT, COUNT + 3), *range(2 * COUNT, 2 * COUNT + 6))
    announce(1)
    assert loaders.figures().predicted == 3
    note(0)
    announce(2)
    assert loaders.figures().predicted == 3 + 1 + 6


def test_opens_of_another_loader_are_not_strange() -> None:
    """Two threads read at once, each from a loader of its own; some files are in both."""
    doubts: list[None] = []
    orders = [np.arange(COUNT), np.arange(COUNT)[:100:-3]]
    loaders = Loaders(
        lambda _, count: [(0, orders[count != COUNT].astype(np.uint64))], Sink(),
        doubt=lambda: doubts.append(None),
    )  # fmt: skip
    for number, order in enumerate(orders):
        loaders.announce(
            replace(
                SAID, loader=number, dataset=number, parts={"paths": b"f\0" * len(order)},
                sampler={**SAID.sampler, "samples": len(order)},
            )
        )  # fmt: skip
    for at in range(0, COUNT, 40):
        for order, step in zip(orders, (40, 10), strict=True):
            piece = order[at * step // 40 :][:step].astype(np.uint64)
            loaders.note([(frozenset({PID}), {0: piece})])
    figures = loaders.figures()
    assert (figures.broken, doubts) == (0, [])
    assert figures.predicted > 0.98 * sum(map(len, orders))
