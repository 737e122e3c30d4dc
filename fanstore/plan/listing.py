"""Reads lists of numbers that a scenario keeps in a file of their own, one number on each line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from fanstore.plan.fields import Fields

_Number = TypeVar("_Number", int, float)

# Parameters that are a list of numbers, or the name of a file with one: how to convert a number,
# and which numbers are allowed.
_LISTS: dict[str, tuple[Callable[[str], Any], str]] = {
    "indices": (int, "a whole number on each line"),
    "weights": (float, "a number on each line"),
}
_SHOWN_MAX = 40  # characters of a wrong word that an error message quotes


def numbers_of_file(
    fields: Fields, key: str, folder: Path, number: Callable[[str], _Number], allowed: str
) -> list[_Number]:
    """Returns the numbers in the file that the value of `key` names; its path is relative to
    `folder`.

    number: converts a word, or raises ValueError; allowed: describes the allowed words. Raises
    UsageError with the key if the file cannot be read, and also with the line if a word is no
    number."""
    path = folder / fields.text(key)
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise fields.wrong(key, f"is {str(path)!r}: {error.strerror}", allowed) from None
    except UnicodeDecodeError:
        raise fields.wrong(key, f"is {str(path)!r}, which is no text", allowed) from None
    found = []
    for line_number, line in enumerate(lines, 1):
        for word in line.split():
            try:
                found.append(number(word))
            except ValueError:
                shown = word if len(word) <= _SHOWN_MAX else f"{word[:_SHOWN_MAX]}..."
                what = f"is {str(path)!r}, whose line {line_number:,} has {shown!r}"
                raise fields.wrong(key, what, allowed) from None
    return found


def with_lists(file: str, name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters of an order; replaces names of files by the lists in these files.

    file: the path of the scenario, to which the paths are relative; name: the full key of the
    parameters' table. Raises UsageError as numbers_of_file does."""
    fields = Fields(file, name, parameters, parameters.keys())
    lists: dict[str, Any] = {
        key: numbers_of_file(fields, key, Path(file).parent, *kind)
        for key, kind in _LISTS.items()
        if isinstance(parameters.get(key), str)
    }
    return {**parameters, **lists}
