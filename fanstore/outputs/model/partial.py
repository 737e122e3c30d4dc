"""Names for outputs whose writer was killed. Their own names are reserved for complete files."""

from __future__ import annotations

import os
from collections.abc import Iterator

_NAME_MAX = 255
_NUMBERS = 1000


def partial_names(name: bytes) -> Iterator[bytes]:
    """Yields NAME.partial, NAME.partial.2 and so on, each cut to 255 bytes."""
    for number in range(1, _NUMBERS):
        end = b".partial" if number == 1 else b".partial.%d" % number
        yield name[: _NAME_MAX - len(end)] + end


def partial_paths(path: str) -> Iterator[str]:
    """Yields the path with its last name replaced by each of its partial_names."""
    directory, name = os.path.split(path)
    for partial in partial_names(os.fsencode(name)):
        yield os.path.join(directory, os.fsdecode(partial))
