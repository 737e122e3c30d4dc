"""The cases of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from fanstore.errors import UsageError


def combinations(changes: Sequence[str]) -> list[dict[str, str]]:
    """Returns all combinations of `name=value,...`, each as a table from name to value; one that is
    empty where there are none. Raises UsageError for another form, and a name that comes twice."""
    values: dict[str, list[str]] = {}
    for change in changes:
        name, _, listed = change.partition("=")
        values_of = listed.split(",")
        if not name or not all(values_of):
            raise UsageError(f"--sweep: {change!r} is not NAME=VALUE,..., such as ram=32GB,64GB")
        if name in values:
            raise UsageError(f"--sweep: {name} is given twice; allowed: once, with all its values")
        values[name] = values_of
    return [dict(zip(values, case, strict=True)) for case in product(*values.values())]
