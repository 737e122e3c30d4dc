"""DeepIO's opportunistic order: what is in memory at each draw, and how random that is."""

from __future__ import annotations

import re
from collections import Counter
from math import lgamma, log
from pathlib import Path

import numpy as np
import pytest

from fanstore.policy.orders.opportunistic import OpportunisticOrder

SHAPES = (
    (60, 20, 4, 1), (61, 20, 4, 1), (61, 61, 4, 1), (7, 6, 3, 1), (50, 7, 1, 1), (40, 39, 8, 1),
    (2, 2, 2, 1), (60, 20, 4, 2), (61, 30, 4, 3), (61, 61, 4, 4), (63, 62, 7, 4), (5, 5, 2, 5),
)  # fmt: skip


@pytest.mark.parametrize(("count", "held", "together", "ranks"), SHAPES)
def test_only_what_is_in_memory_is_read_and_each_stretch_comes_once(
    count: int, held: int, together: int, ranks: int
) -> None:
    orders = OpportunisticOrder(count, held=held, together=together, seed=3, ranks=ranks)
    for epoch in range(5):
        everything, all_reads = orders.samples(epoch).tolist(), 0
        for rank in range(ranks):
            coming = [set(each) for each in orders.stretches(epoch, rank)]
            due = orders.due(epoch, rank).tolist()
            all_reads += len(coming)
            inside: set[int] = set()
            for number, sample in enumerate(everything[rank::ranks]):
                while due and due[0] <= number:
                    inside |= coming.pop(0)
                    due.pop(0)
                assert len(inside) <= held // ranks or held == count
                inside.remove(sample)  # fails for what is not in memory, or was read before
            assert not coming and not inside
        assert sorted(everything) == list(range(count))
        assert orders.stretch_count <= all_reads <= orders.stretch_count + ranks - 1


def test_it_depends_on_seed_and_epoch_alone() -> None:
    orders = OpportunisticOrder(1000, held=250, together=16, seed=5)
    found = [orders.samples(epoch).tolist() for epoch in range(4)]
    assert len({tuple(each) for each in found}) == 4
    assert orders.samples(1).tolist() == found[1]  # after later ones
    assert OpportunisticOrder(1000, held=250, together=16, seed=5).samples(3).tolist() == found[3]
    assert OpportunisticOrder(1000, held=250, together=16, seed=6).samples(3).tolist() != found[3]


def level(count: int, held: int, together: int, epoch: int, seeds: int = 1) -> float:
    """The level of an epoch, on the average of some seeds."""
    found = []
    for seed in range(seeds):
        orders = OpportunisticOrder(count, held=held, together=together, seed=seed)
        found.append(orders.level(epoch, orders.samples(epoch)))
    return float(np.mean(found))


def test_a_full_shuffle_has_the_level_1_and_less_memory_a_lower_one() -> None:
    assert level(300, 300, 10, 0) == level(300, 300, 10, 1) == pytest.approx(1)
    assert level(300, 300, 300, 0) == pytest.approx(1)
    assert level(300, 30, 1, 3) == pytest.approx(1)  # any sample may come to memory next
    assert level(300, 20, 10, 3) < 0.75
    assert level(300, 150, 75, 3) < level(300, 150, 10, 3) < level(300, 290, 10, 3)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("count", "held", "together", "ranks"),
    [(4, 2, 1, 1), (6, 4, 2, 1), (6, 5, 2, 1), (6, 4, 1, 2), (4, 4, 2, 2)],
)
def test_the_level_is_the_entropy_of_the_orders_that_come(
    count: int, held: int, together: int, ranks: int
) -> None:
    """Counted over many seeds."""
    draws, found, levels = 3000, Counter[tuple[int, ...]](), []
    for seed in range(draws):
        orders = OpportunisticOrder(count, held=held, together=together, seed=seed, ranks=ranks)
        drawn = orders.samples(1)
        found[tuple(drawn.tolist())] += 1
        levels.append(orders.level(1, drawn))
    entropy = -sum(each / draws * log(each / draws) for each in found.values())
    entropy += (len(found) - 1) / (2 * draws)  # what few draws lack (Miller and Madow)
    assert entropy / lgamma(count + 1) == pytest.approx(float(np.mean(levels)), abs=0.02)


def test_levels_of_the_documentation() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "samplers.md").read_text()
    rows = re.findall(r"^\| (0\.\d+) \| (.*) % \|$", page, re.MULTILINE)
    assert len(rows) == 4
    for share, cells in rows:
        found = [level(10_960, int(10_960 * float(share)), each, 0) for each in (1, 16, 64, 256)]
        said = [float(cell) / 100 for cell in cells.split(" % | ")]
        assert found == pytest.approx(said, abs=0.0006)


@pytest.mark.parametrize(
    "wrong",
    (
        {"sample_count": 1}, {"held": 0}, {"held": 101}, {"together": 0}, {"held": 4},
        {"together": True}, {"seed": "a"}, {"held": 0.5},
    ),
)  # fmt: skip
def test_arguments_out_of_range_are_named(wrong: dict[str, object]) -> None:
    arguments = {"sample_count": 100, "held": 20, "together": 5, "seed": 0, **wrong}
    count = arguments.pop("sample_count")
    with pytest.raises(ValueError, match=r"\w+ is "):
        OpportunisticOrder(count, **arguments)  # type: ignore[arg-type]
