"""The papers' numbers that a formula or a replay gives, as papers.md lists them."""

from __future__ import annotations

import re
from itertools import islice, permutations
from pathlib import Path
from typing import Any

import numpy as np
import papers
import pytest
from next_reads import next_uses
from replay import replay

from fanstore.policy.orders.registry import reads_of_ranks

PAGE = Path(__file__).with_name("papers.md").read_text()
SAMPLES, EPOCHS, WARM = 20_000, 14, 4


def rows(title: str) -> list[list[str]]:
    """The cells of the rows of the table that begins with a title."""
    table = PAGE.split(f"| {title} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


FORMULAS = rows("number")


@pytest.mark.parametrize("row", FORMULAS, ids=lambda row: row[0])
def test_the_formulas_of_the_documentation_give_its_numbers(row: list[str]) -> None:
    _, _, told, code = row
    found = eval(code.strip("`"), vars(papers))
    number, unit = re.fullmatch(r"([\d.,]+)(.*)", told).groups()  # type: ignore[union-attr]
    digits = len(number.partition(".")[2])
    scale = {"": 1, " %": 100, " GB": 1e-9, " GiB": 2.0**-30, " s": 1}[unit]
    assert f"{found * scale:,.{digits}f}" == number


def test_formulas_are_listed() -> None:
    assert len(FORMULAS) > 10


def misses(policy: str, servers: int, cached: float) -> float:
    """The part of its reads that one of some servers has not in its cache, after warming up."""
    order = reads_of_ranks("torch-distributed", SAMPLES, servers, seed=1)
    epochs = [ranks[0] for ranks in islice(order, EPOCHS)]
    reads = np.concatenate(epochs)
    future: dict[str, Any] = {}
    if policy == "belady":
        future["next_uses"] = next_uses(reads)
    found = replay(policy, reads, 1, round(cached * SAMPLES), **future)
    return float(1 - found[WARM * len(epochs[0]) :].mean())


@pytest.mark.parametrize("row", rows("cache"), ids=lambda row: row[0])
def test_the_replays_of_the_documentation_give_its_numbers(row: list[str]) -> None:
    what, _, *told = row
    servers = int(re.search(r"(\d) servers?", what).group(1))  # type: ignore[union-attr]
    part, whole = re.search(r"([\d.]+) of ([\d.]+) Gi?B", what).groups()  # type: ignore[union-attr]
    for policy, cell in zip(("lru", "random", "minio", "belady"), told, strict=True):
        found = misses(policy, servers, float(part) / float(whole))
        percent, amount = re.fullmatch(r"([\d.]+) %, ([\d.]+)", cell).groups()  # type: ignore[union-attr]
        assert round(100 * found, 1) == float(percent), policy
        assert round(found * float(whole) / servers, 1) == float(amount), policy


def test_coordl_figure_12_lru_misses_two_to_four_times_where_minio_misses_twice() -> None:
    found: dict[str, set[int]] = {"lru": set(), "minio": set()}
    for before in permutations(range(4)):
        for after in permutations(range(4)):
            for policy, counts in found.items():
                hits = replay(policy, [*before, *after], 1, 2)[4:]
                counts.add(4 - int(hits.sum()))
    assert found == {"lru": {2, 3, 4}, "minio": {2}}
