"""Lists of numbers that a scenario names as a file, with one number on each line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fanstore.simulate.fields import Fields

_Number = TypeVar("_Number", int, float)

# Parameters of orders that may be a list or the name of a file with one, and what it has.
_LISTS: dict[str, Callable[[str], Any]] = {"indices": int, "weights": float}


def numbers_of_file(
    fields: Fields, key: str, folder: Path, number: Callable[[str], _Number]
) -> list[_Number]:
    """Returns the numbers in the file that a key names; its path is relative to `folder`.

    number: int or float. Raises UsageError with the key where the file cannot be read, or has
    something else in it.
    """
    path = folder / fields.text(key)
    try:
        return [number(line) for line in path.read_text().split()]
    except (OSError, ValueError) as error:
        allowed = "a file with a number on each line"
        raise fields.wrong(key, f"is {str(path)!r}: {error}", allowed) from None


def with_lists(file: str, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of an order, with the lists themselves where files are named.

    file: the path of the scenario, to which the paths are relative; name: the full key of the
    parameters' table. Raises UsageError as numbers_of_file does.
    """
    fields = Fields(file, name, parameters, parameters.keys())
    lists: dict[str, Any] = {
        key: numbers_of_file(fields, key, Path(file).parent, number)
        for key, number in _LISTS.items()
        if isinstance(parameters.get(key), str)
    }
    return {**parameters, **lists}
