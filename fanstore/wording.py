"""Texts for people: numbers, amounts and long lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_NAMED_MOST = 20

# The sources for which programs wait, in words.
SOURCE_WORDS = {
    "disk": "the local disk",
    "cache": "the block cache",
    "rank": "other ranks",
    "shared": "the shared file system",
    "output": "answers about outputs",
}


def a_guess(name: str, known: Iterable[str]) -> str:
    """Returns a phrase that guesses which known name was meant by an unknown one, to print after
    it; "" if no known name is similar."""
    from difflib import get_close_matches  # imported here because it takes 4 ms

    close = get_close_matches(name, list(known), 1)
    return f" (is {close[0]} meant?)" if close else ""


def counted(count: int, noun: str) -> str:
    """Returns a number with its noun in the singular or plural: `1 file`, `2,000 entries`."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}s"


def show_bytes(count: float) -> str:
    """Returns a number of bytes for people, in binary units."""
    if count < 1024:
        return counted(int(count), "byte")
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1024:
            return f"{count:,.1f} {unit}"
    return f"{count / 1024:,.1f} TiB"


def lines_naming(what: str, names: Sequence[str], count: int) -> list[str]:
    """Returns a line "what: name" for each of the first 20 names, and a line with the number of the
    others. count: the number of all names; `names` may contain only the first ones."""
    lines = [f"{what}: {name}" for name in names[:_NAMED_MOST]]
    rest = count - len(lines)
    return [*lines, f"{what}: {rest:,} more"] if rest > 0 else lines


def order_source(name: str) -> str:
    """Returns the words for where a known read order comes from. name: the daemon's name for that
    source."""
    others = {
        "announce": "as the program said", "recorded": "as it read before",
    }  # fmt: skip
    return name if name in ("grain", "tf.data") else others.get(name, f"torch {name}")


def duration(seconds: float) -> str:
    """Returns a time as text, in a suitable unit."""
    for unit, size in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= size * (2 if size > 1 else 1):
            value = seconds / size
            return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return f"{seconds * 1e6:.0f} µs"
