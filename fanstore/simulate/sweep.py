"""The cases of --sweep: all combinations of the values that it names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from fanstore.errors import UsageError


def combinations(changes: Sequence[str]) -> list[dict[str, str]]:
    """Returns a table from name to value for each combination of values.

    changes: texts of the form `name=value,value,...`; without any there is one table, an empty one.
    Raises UsageError for a text of another form, and for a name or a value that comes twice.
    """
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
