"""Lists of numbers that a scenario names as a file, with one number on each line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fanstore.simulate.fields import Fields

_Number = TypeVar("_Number", int, float)


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
