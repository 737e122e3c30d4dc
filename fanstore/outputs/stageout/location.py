"""Says what can be known of an output directory before there are outputs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence


def folders_of(prefixes: Sequence[str]) -> tuple[bytes, ...]:
    """Returns the folder of each mount below the output directory: b"" where there is one mount,
    else the last name of its prefix, made unique."""
    if len(prefixes) == 1:
        return (b"",)
    found: list[bytes] = []
    for prefix in prefixes:
        name = os.path.basename(os.fsencode(prefix).rstrip(b"/")) or b"root"
        number = 1
        chosen = name
        while chosen in found:
            number += 1
            chosen = name + b"-%d" % number
        found.append(chosen)
    return tuple(found)


def problem_of(path: str) -> str:
    """Says why nothing can be placed in an output directory, as far as can be known without making
    it; "" where nothing speaks against it."""
    parent = os.path.dirname(path) or "/"
    if os.path.lexists(path):
        if not os.path.isdir(path):
            return "is not a directory"
        return "" if os.access(path, os.W_OK | os.X_OK) else "is not writable"
    if not os.path.isdir(parent):
        there = "is not a directory" if os.path.lexists(parent) else "does not exist"
        return f"cannot be made: {parent} {there}"
    if not os.access(parent, os.W_OK | os.X_OK):
        return f"cannot be made: {parent} is not writable"
    return ""


def refusal_of(path: str, prefixes: Iterable[str]) -> str:
    """Says why an output directory cannot be used beside these mount prefixes; "" if it can."""
    parts = os.path.realpath(path).split("/")
    ancestors = ["/".join(parts[: n + 1]) or "/" for n in range(len(parts))]
    for prefix in prefixes:
        inside = os.path.realpath(prefix)
        if any(each == inside or _is_same(each, inside) for each in ancestors):
            return f"lies in the mount prefix {prefix}"
    return ""


def _is_same(path: str, other: str) -> bool:
    """Tells whether two paths lead to one directory, as bind mounts do."""
    with contextlib.suppress(OSError):
        return os.path.samefile(path, other)
    return False
