"""Checks an output directory before a job starts."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterable, Sequence


def folders_of(prefixes: Sequence[str]) -> tuple[bytes, ...]:
    """Returns the folder of each mount below the output directory: b"" if there is one mount,
    otherwise the last component of its prefix, made unique."""
    if len(prefixes) == 1:
        return (b"",)
    found: list[bytes] = []
    for prefix in prefixes:
        name = os.path.basename(os.fsencode(prefix).rstrip(b"/")) or b"root"
        numbered = (name + b"-%d" % number for number in itertools.count(2))
        names = itertools.chain([name], numbered)
        found.append(next(each for each in names if each not in found))
    return tuple(found)


def problem_of(path: str) -> str:
    """Returns why nothing can be placed in an output directory; "" if no reason can be found
    without creating the directory."""
    needed, problem = path, ""
    if not os.path.lexists(path):
        needed = os.path.dirname(path) or "/"
        problem = f"cannot be made: {needed} "
    if not os.path.lexists(needed):
        return problem + "does not exist"
    if not os.path.isdir(needed):
        return problem + "is not a directory"
    return "" if os.access(needed, os.W_OK | os.X_OK) else problem + "is not writable"


def holds_files(path: str) -> bool:
    """Returns whether an output directory holds files already, other than FanStore's own."""
    with contextlib.suppress(OSError), os.scandir(path) as entries:
        return any(not each.name.startswith(".fanstore-") for each in entries)
    return False


def refusal_of(path: str, prefixes: Iterable[str]) -> str:
    """Returns why an output directory cannot be used with these mount prefixes; "" if it can."""
    parts = os.path.realpath(path).split("/")
    ancestors = ["/".join(parts[: n + 1]) or "/" for n in range(len(parts))]
    for prefix in prefixes:
        inside = os.path.realpath(prefix)
        if any(each == inside or _is_same(each, inside) for each in ancestors):
            return f"lies in the mount prefix {prefix}"
    return ""


def _is_same(path: str, other: str) -> bool:
    """Returns whether two paths lead to the same directory, for example through a bind mount."""
    with contextlib.suppress(OSError):
        return os.path.samefile(path, other)
    return False
