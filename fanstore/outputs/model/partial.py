"""What an output is called whose writer was killed: never by its own name, which stands for a whole
file."""

from __future__ import annotations

import os
from collections.abc import Iterator

_NAME_MAX = 255
_NUMBERS = 1000


def partial_names(name: bytes) -> Iterator[bytes]:
    """NAME.partial, then NAME.partial.2 and so on; cut short where it would be too long."""
    for number in range(1, _NUMBERS):
        end = b".partial" if number == 1 else b".partial.%d" % number
        yield name[: _NAME_MAX - len(end)] + end


def partial_paths(path: str) -> Iterator[str]:
    """The same of a path's last name."""
    directory, name = os.path.split(path)
    for partial in partial_names(os.fsencode(name)):
        yield os.path.join(directory, os.fsdecode(partial))
