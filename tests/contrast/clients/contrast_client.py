"""What the Python clients share: where they are, and how they say what they saw.

A client's cases are its functions case_*; `run(globals())` calls the one named on the command
line. What `show` prints is compared between the two sides. A call that does not fail as its case
says ends the client with status 1, on the plain side too: then the case itself is wrong.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable

T = os.environ["T"]
W = os.environ["W"]
O = os.environ["O"]  # noqa: E741
HELLO = f"{T}/text/hello.txt"
LINES = f"{T}/text/lines.txt"
MID = f"{T}/bin/mid.bin"
BIG = f"{T}/bin/big.bin"
MISSING = f"{T}/text/missing"

wrong: list[str] = []


def show(label: str, *values: object) -> None:
    print(label, *map(repr, values), flush=True)


def fails(name: str, call: Callable, *args: object, **options: object) -> None:
    """Calls, shows the errno by name, and remembers when it is not `name`."""
    try:
        actual = f"success: {call(*args, **options)!r}"
    except OSError as error:
        actual = errno.errorcode.get(error.errno, str(error.errno))
    label = f"{getattr(call, '__name__', call)}{args}"
    print(label, actual, flush=True)
    if actual != name:
        wrong.append(f"{label}: expected {name}, got {actual}")


def same(label: str, actual: object, expected: object) -> None:
    """Shows a value that the case knows."""
    show(label, actual)
    if actual != expected:
        wrong.append(f"{label}: expected {expected!r}, got {actual!r}")


def facts(status: os.stat_result) -> tuple[object, ...]:
    """Of a stat result, what does not differ between file systems."""
    size = -1 if stat.S_ISDIR(status.st_mode) else status.st_size
    return (
        oct(status.st_mode),
        status.st_nlink,
        status.st_uid,
        status.st_gid,
        size,
        status.st_mtime_ns,
    )


def run(names: dict[str, object]) -> None:
    case = names["case_" + sys.argv[1]]
    case()  # type: ignore[operator]
    if wrong:
        sys.exit("\n".join(wrong))
