"""Scenario files: what they say, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inprocess import call
from scenarios import storage, table

from fanstore.errors import UsageError
from fanstore.policy.orders.registry import ORDERS, SPLITS, keywords
from fanstore.study.fields import rate_bytes_per_s, size_bytes
from fanstore.study.simulate.library import built_in, changed, combinations, load
from fanstore.study.simulate.scenario import scenario_from

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": (
        {"system__computer": "1 MB/s"},
        "t.toml: system.computer is unknown (is compute meant?); allowed: nodes, ranks_per_node,",
    ),
    "missing": ({"system__network": None}, "system.network is missing; allowed: a number above 0"),
    "no unit": ({"system__compute": 64}, "system.compute is 64; allowed: a number above 0 with"),
    "no seconds": ({"system__compute": "64 MB"}, "system.compute is '64 MB'; allowed"),
    "a rate as size": ({"staging_buffer__capacity": "5 GB/s"}, "capacity is '5 GB/s'; allowed"),
    "negative": ({"system__preprocess": "-5 MB/s"}, "system.preprocess is '-5 MB/s'; allowed"),
    "zero": ({"system__network": "0 MB/s"}, "system.network is '0 MB/s'; allowed: a number above"),
    "parts of a byte": ({"dataset__mean": "0.5 B"}, "dataset.mean is '0.5 B'; allowed"),
    "no nodes": ({"system__nodes": 0}, "system.nodes is 0; allowed: an integer, 1 or more"),
    "half a node": ({"system__nodes": 1.5}, "system.nodes is 1.5; allowed: an integer"),
    "curve not sorted": (
        {"shared__readers": [1, 4, 2, 8]},
        "system.shared.readers is [1, 4, 2, 8]; allowed: integers from 1 on that rise",
    ),
    "curve too short": (
        {"shared__rate": ["1 MB/s"]},
        "system.shared.rate has 1 values for 4 readers; allowed: one for each",
    ),
    "rate of a curve": ({"shared__readers": [1], "shared__rate": [5]}, "shared.rate is [5]; all"),
    "slow class first": (
        {"classes": [storage("disk", "1 GB", "1 GB/s"), storage("ram", "1 GB", "2 GB/s")]},
        "classes[1].read makes a thread of ram read faster than one of disk; allowed: the fastest",
    ),
    "a class twice": (
        {"classes": [storage("ram", "1 GB", "2 GB/s"), storage("ram", "1 GB", "1 GB/s")]},
        "system.classes[1].name is 'ram' a second time; allowed: each name once",
    ),
    **{
        f"a class named {name}": (
            {"classes": [storage(name, "1 GB", "2 GB/s")]},
            f"system.classes[0].name is {name!r}; allowed: any name that means nothing else",
        )
        for name in ("shared", "remote", "network", "files")
    },
    "a class named in two lines": (
        {"classes": [storage("a\nb", "1 GB", "2 GB/s")]},
        r"system.classes[0].name is 'a\nb'; allowed: letters, digits and _ . -",
    ),
    "nodes without end": (
        {"system__nodes": 10**20},
        f"system.nodes is {10**20}; allowed: an integer, 1 or more, 1048576 at most",
    ),
    "a batch without end": ({"job__batch": 10**20}, "allowed: an integer, 1 or more, 4294967295"),
    "epochs without end": ({"job__epochs": 10**20}, "allowed: an integer, 1 or more, 2147483648"),
    "fifteen classes": (
        {"classes": [storage(str(n), "1 GB", "1 GB/s") for n in range(15)]},
        "system.classes are 15; allowed: 14 or fewer",
    ),
    "no distribution": ({"dataset__sizes": "uniform"}, "'uniform'; allowed: fixed, normal, list"),
    "key of another kind": (
        {"dataset__sizes": "fixed", "dataset__size": "1 B"},
        "dataset.mean has no meaning with sizes = 'fixed'; allowed: files, size",
    ),
    "order": ({"job__order": {"name": "torch"}}, "job.order.name is 'torch'; allowed: dali"),
    "order not a table": ({"job__order": "sequential"}, "job.order.name is 'sequential'; allowed"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_value_is_named_with_what_is_allowed(case: str) -> None:
    changes, message = BAD[case]
    with pytest.raises(UsageError) as error:
        scenario_from("t.toml", table(**changes))
    assert str(error.value).startswith("t.toml: ")
    assert message in str(error.value)


def test_refused_are_negative_sizes_where_they_are_not_allowed() -> None:
    read = scenario_from("t.toml", table(dataset__negative="refuse"))
    with pytest.raises(UsageError, match=r"t.toml: dataset.negative is 'refuse', and \d+ of 300"):
        read.sizes.draw()


def test_each_treatment_of_negative_sizes() -> None:
    # The mean of max(0, X), and of X above 0, of a normal X with these parameters.
    means = {"zero": 144.94, "redraw": 205.6}
    for treatment, mean_kb in means.items():
        changes = {"dataset__mean": "107.7 kB", "dataset__deviation": "200 kB"}
        read = scenario_from(
            "t.toml", table(dataset__files=200_000, dataset__negative=treatment, **changes)
        )
        sizes = read.sizes.draw()
        assert sizes.min() >= 0
        assert sizes.mean() / 1000 == pytest.approx(mean_kb, rel=0.01)
        assert (sizes == read.sizes.draw()).all()


def of_sizes(sizes: str, folder: Path, **others: str) -> list[int]:
    whole = table()
    whole["dataset"] = {"sizes": sizes, **others}
    drawn: list[int] = scenario_from(str(folder / "t.toml"), whole).sizes.draw().tolist()
    return drawn


def test_sizes_of_a_list_and_of_a_dataset(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("5\n0\n70\n")
    assert of_sizes("list", tmp_path, list="list") == [5, 0, 70]
    (tmp_path / "source").mkdir()
    for size in (5, 0, 70):
        (tmp_path / "source" / str(size)).write_bytes(b"x" * size)
    call("prepare", tmp_path / "source", tmp_path / "data", "--quiet")
    assert sorted(of_sizes("dataset", tmp_path, path="data")) == [0, 5, 70]
    with pytest.raises(UsageError, match="No such file"):
        of_sizes("list", tmp_path, list="missing")


@pytest.mark.parametrize("wrong", ["-1", "x", "1e3", "\u0663", str(2**63), "9" * 5000])
def test_a_list_of_sizes_says_which_line_is_none(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "list").write_text(f"5\n\n{wrong}\n", "utf-8")
    with pytest.raises(UsageError) as told:
        of_sizes("list", tmp_path, list="list")
    shown = wrong if len(wrong) <= 40 else "9" * 40 + "..."
    assert str(told.value) == (
        f"{tmp_path / 't.toml'}: dataset.list is '{tmp_path / 'list'}', "
        f"whose line 3 has {shown!r}; "
        "allowed: the size of a file in bytes on each line, 0 to 9,223,372,036,854,775,807"
    )


def test_the_sizes_of_a_list_are_bounded_together(tmp_path: Path) -> None:
    (tmp_path / "list").write_text(f"{2**63 - 1}\n")
    assert of_sizes("list", tmp_path, list="list") == [2**63 - 1]
    (tmp_path / "list").write_text(f"{2**63 - 1}\n1\n")
    with pytest.raises(UsageError, match="has 9,223,372,036,854,775,808 bytes together"):
        of_sizes("list", tmp_path, list="list")
    (tmp_path / "list").write_text("\n")
    with pytest.raises(UsageError, match="a file without sizes"):
        of_sizes("list", tmp_path, list="list")


def test_an_order_takes_its_lists_from_files(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("1\n0\n0.5\n")
    order = {"name": "torch-weighted-random", "seed": 1, "weights": "weights"}
    file = str(tmp_path / "t.toml")
    read = scenario_from(file, table(job__order=order))
    assert read.job.order_parameters == {"seed": 1, "weights": [1, 0, 0.5]}
    order["weights"] = [1, 2]
    assert scenario_from(file, table(job__order=order)).job.order_parameters["weights"] == [1, 2]
    order["weights"] = "missing"
    with pytest.raises(UsageError, match=r"job.order.weights is '.*missing': .*No such file"):
        scenario_from(file, table(job__order=order))


def test_units() -> None:
    assert (size_bytes("5 GB"), size_bytes("1.5KiB"), size_bytes("2G")) == (5 * 10**9, 1536, 2**31)
    assert size_bytes("760 B") == 760
    assert rate_bytes_per_s("0.5 MB/s") == 500_000
    for text in ("\u0665 GB", "5.\u0665 GB"):
        with pytest.raises(ValueError):
            size_bytes(text)


def test_an_unknown_scenario_is_told_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"no scenario 'nopfs1' \(is nopfs-1 meant\?\); built in"):
        load("nopfs1")
    with pytest.raises(UsageError, match="no scenario 'xyz'; built in"):
        load("xyz")


@pytest.mark.parametrize("name", built_in())
def test_built_in_scenarios_are_scenarios(name: str) -> None:
    file, values = load(name)
    assert scenario_from(file, values).job.epochs >= 2


def test_a_sweep_changes_what_it_names() -> None:
    cases = combinations(["ram=1GB,2GB", "nodes=8"])
    assert cases == [{"ram": "1GB", "nodes": "8"}, {"ram": "2GB", "nodes": "8"}]
    read = scenario_from("t.toml", changed("t.toml", table(), cases[1]))
    assert (read.system.nodes, read.system.classes[0].capacity_bytes) == (8, 2 * 10**9)
    assert combinations([]) == [{}]
    for bad in (["ram"], ["=1GB"], ["ram=1GB,"], ["ram=1GB,1GB"], ["ram=1GB", "ram=2GB"]):
        with pytest.raises(UsageError, match="--sweep: "):
            combinations(bad)
    with pytest.raises(UsageError, match=r"nothing is named 'rma' .*allowed: batch, compute, disk"):
        changed("t.toml", table(), {"rma": "1GB"})


def test_the_documentation_lists_every_order_with_its_parameters() -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    rows = page.split("| order | what reads like this |")[1].split("\n\n")[0].splitlines()[2:]
    told: dict[str, dict[str, bool]] = {}
    for row in rows:
        names, _, parameters = row.strip("| ").split(" | ")
        keys = [key for key in parameters.split(", ") if key != "-"]
        for name in names.replace("`", "").split(", "):
            told[name] = {key.strip("*`"): key.startswith("**") for key in keys}
    splits = {name: keywords(split) for name, split in SPLITS.items()}
    known = {name: {**keywords(order), **splits.get(name, {})} for name, order in ORDERS.items()}
    given = ("world_size", "epoch")  # by the simulator itself
    assert told == {
        name: {key: needed for key, needed in keys.items() if key not in given}
        for name, keys in known.items()
    }


def test_the_scenario_of_the_documentation_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "simulator.md").read_text()
    text = (
        page.split("\n## A scenario\n")[1].split("    about =")[1].split("\n`readers_per_rank`")[0]
    )
    (tmp_path / "t.toml").write_text("    about =" + text)
    read = scenario_from("t.toml", load(str(tmp_path / "t.toml"))[1])
    assert (read.system.ranks, read.job.epochs) == (32, 90)
