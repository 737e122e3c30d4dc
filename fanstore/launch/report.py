"""What FanStore says on stderr around a command."""

from __future__ import annotations

import sys
from typing import Any

DAMAGED_SHOWN = 20


def say(text: str) -> None:
    """One line on stderr, whatever bytes names in it hold."""
    safe = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    print(f"fanstore: {safe}", file=sys.stderr, flush=True)


def size(amount_bytes: float) -> str:
    """Bytes for people, in binary units."""
    if amount_bytes < 1024:
        return f"{amount_bytes:.0f} bytes"
    units = ["KiB", "MiB", "GiB", "TiB"]
    amount_bytes /= 1024
    while amount_bytes >= 1024 and len(units) > 1:
        amount_bytes /= 1024
        units.pop(0)
    return f"{amount_bytes:,.1f} {units[0]}"


def damage_lines(job: dict[str, Any]) -> list[str]:
    """The damaged files of a job's datasets, by name; beyond DAMAGED_SHOWN a count."""
    lines = []
    for dataset in job["datasets"]:
        names = dataset["damaged_files"]
        where = dataset["mount_prefix"]
        lines += [f"damaged: {where}/{name}" for name in names[:DAMAGED_SHOWN]]
        rest = dataset["damaged_count"] - len(names[:DAMAGED_SHOWN])
        if rest > 0:
            lines.append(f"damaged: {rest} more under {where}; see fanstore verify")
    return lines


def summary_line(summary: dict[str, Any]) -> str:
    """What a job has served, in one line."""
    counters = summary["counters"]
    damaged = sum(dataset["damaged_count"] for dataset in summary["datasets"])
    return (
        f"{counters['opens']:,} files opened, {size(counters['read_bytes'])} read, "
        f"{counters['errors']:,} errors, {damaged:,} damaged files"
    )
