"""Reads the values of a TOML table, and lists of numbers that it names as a file, with numbers on
each line. A wrong one raises UsageError, which names the file, the key and what is allowed. Amounts
have units: `120 GB`, `64 MB/s`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

from fanstore.errors import UsageError
from fanstore.policy import checks
from fanstore.policy.checks import BYTES_MAX
from fanstore.policy.curve import Curve
from fanstore.wording import a_guess

# As in GNU programs: kB, MB are powers of 1000; K, KiB, M, MiB those of 1024.
UNITS_BYTES = {
    "B": 1,
    **{name + "B": 1000**power for power, name in enumerate("kMGT", 1)},
    **{name + "iB": 1024**power for power, name in enumerate("KMGT", 1)},
    **{name: 1024**power for power, name in enumerate("KMGT", 1)},
}
_POWERS_OF_1000 = [("B", 1), *((name, UNITS_BYTES[name]) for name in ("kB", "MB", "GB", "TB"))]
SIZES = f"a number from 0 on with a unit ({', '.join(UNITS_BYTES)}), such as '120 GB'"
RATES = "a number above 0 with a unit a second, such as '64 MB/s'"

_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)(/s)?")


def size_bytes(text: object) -> int:
    """Returns the bytes of a size. Raises ValueError for a fraction of a byte, and for a text that
    is no size."""
    number, per_second = _amount(text)
    if per_second or number > BYTES_MAX or number != int(number):
        raise ValueError
    return int(number)


def rate_bytes_per_s(text: object) -> float:
    """Returns the bytes per second of a rate. Raises ValueError for a text that is no rate."""
    number, per_second = _amount(text)
    if not per_second or not number:
        raise ValueError
    return number


def _amount(text: object) -> tuple[float, bool]:
    match = _AMOUNT.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or match[2] not in UNITS_BYTES:
        raise ValueError
    number = round(float(match[1]) * UNITS_BYTES[match[2]], 6)
    if number == float("inf"):
        raise ValueError
    return number, bool(match[3])


def rate_text(bytes_per_s: float) -> str:
    """Returns a rate in the form that rate_bytes_per_s reads, with four digits; 1 B/s at least."""
    name, unit = max(
        ((name, unit) for name, unit in _POWERS_OF_1000 if unit <= bytes_per_s or unit == 1),
        key=lambda each: each[1],
    )
    number = max(1.0, bytes_per_s) / unit
    return f"{number:.{max(0, 4 - len(str(int(number))))}f} {name}/s"


_Value = TypeVar("_Value")
_COUNT_MAX = 2**31  # the most readers, threads or other counted things


class Fields:
    """One table of a TOML file, with its full key such as `system.shared`, or an empty name for the
    whole file. Methods raise UsageError if a value is missing or wrong."""

    def __init__(self, file: str, name: str, values: Any, keys: Collection[str]) -> None:
        """Raises UsageError if `values` is no table, or has a key that is not one of `keys`."""
        self._file, self._name, self._values = file, name, values
        if not isinstance(values, dict):
            raise UsageError(f"{file}: {name} is {values!r}; allowed is a table [{name}]")
        for key in values:
            if key not in keys:
                raise self.wrong(key, f"is unknown{a_guess(key, keys)}", ", ".join(keys))

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def key(self, key: str) -> str:
        """Returns the full name of a key of this table, such as `system.nodes`."""
        return f"{self._name}.{key}" if self._name else key

    def wrong(self, key: str, what: str, allowed: str) -> UsageError:
        """Returns the error for a wrong value of a key; does not raise it."""
        return UsageError(f"{self._file}: {self.key(key)} {what}; allowed: {allowed}")

    def value(self, key: str, allowed: str) -> Any:
        """Returns the value of a key. Raises UsageError, which says what is allowed, if the key is
        missing."""
        if key not in self._values:
            raise self.wrong(key, "is missing", allowed)
        return self._values[key]

    def table(self, key: str, keys: Collection[str]) -> Fields:
        """Returns a table within this one, which may have only the keys `keys`."""
        values = self.value(key, f"a table [{key}]")
        return Fields(self._file, self.key(key), values, keys)

    def tables(self, key: str, keys: Collection[str]) -> list[Fields]:
        """Returns the tables of an array of tables within this one; an empty list if the key is
        missing."""
        values = self._values.get(key, [])
        if not isinstance(values, list):
            raise self.wrong(key, f"is {values!r}", f"tables [[{self.key(key)}]]")
        named = [(f"{self.key(key)}[{number}]", each) for number, each in enumerate(values)]
        return [Fields(self._file, name, each, keys) for name, each in named]

    def integer(self, key: str, least: int, most: int | None = None) -> int:
        """Returns the value of a key: an integer from `least` to `most` (None: no limit)."""
        allowed = f"an integer, {least} or more" + (f", {most} at most" if most else "")
        return self._read(key, allowed, lambda value: checks.integer(key, value, least, most))

    def text(self, key: str, choices: Collection[str] = ()) -> str:
        """Returns the value of a key: a text that is not empty, and is one of `choices` if they are
        given."""

        def read(value: object) -> str:
            if not isinstance(value, str) or not value or (choices and value not in choices):
                raise ValueError
            return value

        return self._read(key, ", ".join(choices) or "a text", read)

    def size_bytes(self, key: str) -> int:
        """Returns the value of a key as bytes: a size such as `120 GB`."""
        return self._read(key, SIZES, size_bytes)

    def rate_bytes_per_s(self, key: str) -> float:
        """Returns the value of a key as bytes per second: a rate such as `64 MB/s`."""
        return self._read(key, RATES, rate_bytes_per_s)

    def curve(self, key: str, by: str) -> Curve:
        """Returns a curve in bytes per second from a table within this one, such as { threads = [1,
        4], rate = ["1 GB/s", "3 GB/s"] } with `by` as "threads"."""
        return self.table(key, (by, "rate")).points(by)

    def points(self, by: str) -> Curve:
        """Returns a curve in bytes per second whose points are two lists of this table, `by` and
        `rate`."""
        counts = self._read(by, "integers from 1 on that rise, such as [1, 2, 4]", _rising)
        rates = self._read("rate", f"for each of {by} {RATES}", _rates)
        if len(counts) != len(rates):
            what = f"has {len(rates)} values for {len(counts)} {by}"
            raise self.wrong("rate", what, "one for each")
        return Curve(counts, rates)

    def _read(self, key: str, allowed: str, read: Callable[[Any], _Value]) -> _Value:
        value = self.value(key, allowed)
        try:
            return read(value)
        except ValueError:
            raise self.wrong(key, f"is {value!r}", allowed) from None


def _rising(value: object) -> list[int]:
    if not isinstance(value, list) or not value:
        raise ValueError
    counts = [checks.integer("count", count, 1, _COUNT_MAX) for count in value]
    if counts != sorted(set(counts)):
        raise ValueError
    return counts


def _rates(value: object) -> list[float]:
    if not isinstance(value, list):
        raise ValueError
    return [rate_bytes_per_s(rate) for rate in value]


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
