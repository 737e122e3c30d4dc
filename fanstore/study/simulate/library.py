"""Finds scenarios: the built-in ones by name, others by path. Also makes the cases of --sweep."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from fanstore.config import load_toml
from fanstore.errors import UsageError
from fanstore.wording import a_guess

_FOLDER = Path(__file__).parent / "scenarios"


def built_in() -> dict[str, str]:
    """Returns the names of the built-in scenarios, each with a line that describes it."""
    paths = sorted(_FOLDER.glob("*.toml"))
    return {path.stem: str(load_toml(path)["about"]) for path in paths}


def load(name: str) -> tuple[str, dict[str, Any]]:
    """Returns the path of a scenario's file, and its content as a table.

    A name with a slash or a dot is a path; any other is the name of a built-in scenario, which may
    name another one as its base. Raises
    UsageError, which lists the built-in ones, if none has that name; OSError if the file cannot be
    read."""
    if "/" in name or "." in name:
        return name, load_toml(Path(name))
    path = _FOLDER / f"{name}.toml"
    if not path.is_file():
        known = sorted(each.stem for each in _FOLDER.glob("*.toml"))
        raise UsageError(
            f"there is no scenario {name!r}{a_guess(name, known)}; built in are "
            f"{', '.join(known)}; a file is named with its path, such as .{os.sep}{name}.toml"
        )
    table = load_toml(path)
    base = table.pop("base", None)
    return str(path), table if base is None else _over(load(base)[1], table)


def _over(base: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of `table`, and those of `base` that it does not change. A table [dataset]
    with another kind of sizes stays as it is."""
    found = {**base, **table}
    if table.get("sizes", base.get("sizes")) != base.get("sizes"):
        return table
    for key, value in base.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            found[key] = _over(value, table[key])
    return found


def changed(file: str, table: dict[str, Any], changes: Mapping[str, str]) -> dict[str, Any]:
    """Returns the table of a scenario with some values replaced; a value of digits alone becomes a
    number.

    Values that can be replaced: `epochs`, `batch`, `files`, a key of [system], `staging_buffer`
    (its capacity), and the name of a storage class (its capacity). Raises UsageError for other
    names."""
    if not changes:
        return table
    system, job, dataset = (_table(table, key) for key in ("system", "job", "dataset"))
    listed = system.get("classes", [])
    classes = [_table({0: each}, 0) for each in listed] if isinstance(listed, list) else []
    staging = _table(system, "staging_buffer")
    places: dict[str, tuple[dict[str, Any], str]] = {
        **{each.get("name", ""): (each, "capacity") for each in classes},
        "staging_buffer": (staging, "capacity"),
        "epochs": (job, "epochs"),
        "batch": (job, "batch"),
        "files": (dataset, "files"),
    }
    for key in ("nodes", "ranks_per_node", "compute", "preprocess", "network"):
        places[key] = (system, key)
    for name, value in changes.items():
        if name not in places:
            raise UsageError(
                f"{file}: nothing is named {name!r} to be changed; allowed: "
                f"{', '.join(sorted(places))}"
            )
        where, key = places[name]
        where[key] = int(value) if value.isascii() and value.isdigit() else value
    system.update(staging_buffer=staging, classes=classes or listed)
    return {**table, "system": system, "job": job, "dataset": dataset}


def _table(table: Mapping[Any, Any], key: object) -> dict[str, Any]:
    """Returns a copy of a table within another one; an empty table if the value is no table, which
    scenario_from reports later."""
    value = table.get(key, {})
    return dict(value) if isinstance(value, dict) else {}


def combinations(changes: Sequence[str]) -> list[dict[str, str]]:
    """Returns a table from name to value for each combination of values.

    changes: texts of the form `name=value,value,...`; without any, there is one empty table. Raises
    UsageError for a text of another form, and for a name or value that is given twice."""
    values: dict[str, list[str]] = {}
    for change in changes:
        name, _, listed = change.partition("=")
        values_of = listed.split(",")
        if not name or not all(values_of):
            raise UsageError(f"--sweep: {change!r} is not NAME=VALUE,..., such as ram=32GB,64GB")
        if name in values:
            raise UsageError(f"--sweep: {name} is given twice; allowed: once, with all its values")
        if len(set(values_of)) < len(values_of):
            raise UsageError(f"--sweep: {change!r} has a value twice; allowed: each once")
        values[name] = values_of
    return [dict(zip(values, case, strict=True)) for case in product(*values.values())]
