"""Amounts with their units: `120 GB`, `64 MB/s`."""

from __future__ import annotations

import re

from fanstore.policy.checks import BYTES_MAX

# As GNU programs have them: kB, MB are powers of 1000; K, KiB, M, MiB those of 1024.
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
    """Returns the bytes of a size. Raises ValueError for anything but SIZES, and for parts of a
    byte."""
    number, per_second = _amount(text)
    if per_second or number > BYTES_MAX or number != int(number):
        raise ValueError
    return int(number)


def rate_bytes_per_s(text: object) -> float:
    """Returns the bytes a second of a rate. Raises ValueError for anything but RATES."""
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
    """Returns a rate as rate_bytes_per_s reads it, with four digits. Nothing is below 1 B/s."""
    name, unit = max(
        ((name, unit) for name, unit in _POWERS_OF_1000 if unit <= bytes_per_s or unit == 1),
        key=lambda each: each[1],
    )
    number = max(1.0, bytes_per_s) / unit
    return f"{number:.{max(0, 4 - len(str(int(number))))}f} {name}/s"
