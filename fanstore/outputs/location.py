"""Which output directory: what is known of it before there are outputs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence


def folders_of(prefixes: Sequence[str]) -> tuple[bytes, ...]:
    """The directory of each mount below the output directory: none where there is one mount, else
    its prefix's last name, made unique."""
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
    """Why nothing can be placed in an output directory, as far as can be known without making it;
    "" if that is not known."""
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
    """Why an output directory cannot be used beside these mount prefixes; "" if it can."""
    real = os.path.realpath(path)
    for prefix in prefixes:
        inside = os.path.realpath(prefix)
        if real == inside or real.startswith(inside.rstrip("/") + "/"):
            return f"lies in the mount prefix {prefix}"
    return ""
