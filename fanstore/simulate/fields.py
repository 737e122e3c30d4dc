"""The fields of a TOML table. What is wrong is a UsageError with file, key and what is allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any, TypeVar

from fanstore.errors import UsageError
from fanstore.policy import checks
from fanstore.policy.models.curve import Curve
from fanstore.simulate.units import RATES, SIZES, rate_bytes_per_s, size_bytes

_Value = TypeVar("_Value")
_COUNT_MAX = 2**31  # of readers and threads


class Fields:
    """One table of a file; `name` is its key, such as `system`, empty for the whole file."""

    def __init__(self, file: str, name: str, values: Any, keys: Collection[str]) -> None:
        """Raises UsageError where `values` is no table, or has a key that is not one of `keys`."""
        self._file, self._name, self._values = file, name, values
        if not isinstance(values, dict):
            raise UsageError(f"{file}: {name} is {values!r}; allowed is a table [{name}]")
        for key in values:
            if key not in keys:
                close = get_close_matches(key, keys, 1)
                guess = f" (is {close[0]} meant?)" if close else ""
                raise self.wrong(key, f"is unknown{guess}", ", ".join(keys))

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def key(self, key: str) -> str:
        """Returns the full name of a key."""
        return f"{self._name}.{key}" if self._name else key

    def wrong(self, key: str, what: str, allowed: str) -> UsageError:
        """Returns the error that says what is wrong with a key."""
        return UsageError(f"{self._file}: {self.key(key)} {what}; allowed: {allowed}")

    def value(self, key: str, allowed: str) -> Any:
        """Returns a value as it stands there."""
        if key not in self._values:
            raise self.wrong(key, "is missing", allowed)
        return self._values[key]

    def table(self, key: str, keys: Collection[str]) -> Fields:
        """Returns a table in this one."""
        return Fields(self._file, self.key(key), self.value(key, f"a table [{key}]"), keys)

    def tables(self, key: str, keys: Collection[str]) -> list[Fields]:
        """Returns a list of tables in this one; none where there is no such key."""
        values = self._values.get(key, [])
        if not isinstance(values, list):
            raise self.wrong(key, f"is {values!r}", f"tables [[{self.key(key)}]]")
        named = [(f"{self.key(key)}[{number}]", each) for number, each in enumerate(values)]
        return [Fields(self._file, name, each, keys) for name, each in named]

    def integer(self, key: str, least: int, most: int | None = None) -> int:
        """Returns an integer from `least` to `most`."""
        allowed = f"an integer, {least} or more" + (f", {most} at most" if most else "")
        return self._read(key, allowed, lambda value: checks.integer(key, value, least, most))

    def text(self, key: str, choices: Collection[str] = ()) -> str:
        """Returns a text, one of the choices if there are any."""

        def read(value: object) -> str:
            if not isinstance(value, str) or not value or (choices and value not in choices):
                raise ValueError
            return value

        return self._read(key, ", ".join(choices) or "a text", read)

    def size_bytes(self, key: str) -> int:
        """Returns a size."""
        return self._read(key, SIZES, size_bytes)

    def rate_bytes_per_s(self, key: str) -> float:
        """Returns a rate."""
        return self._read(key, RATES, rate_bytes_per_s)

    def curve(self, key: str, by: str) -> Curve:
        """Returns a rate by what `by` names: { by = [1, 4], rate = ["1 GB/s", "3 GB/s"] }."""
        return self.table(key, (by, "rate")).points(by)

    def points(self, by: str) -> Curve:
        """Returns the curve whose points are in this table: the lists `by` and `rate`."""
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
