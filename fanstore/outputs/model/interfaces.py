"""The interface that the outputs need from rooms above them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Inputs(Protocol):
    """The files of a mount's dataset. Paths are relative to the mount, in normal form."""

    prefixes: Sequence[bytes]
    """The mount prefix first, then other spellings of it. Absolute, no slash at the end."""

    def kind(self, path: bytes) -> str:
        """Returns the kind of the path: "missing", "directory", "link" or "file"."""

    def target(self, path: bytes) -> bytes:
        """Returns the target of a symbolic link."""

    def record(self, path: bytes) -> int | None:
        """Returns the record id of the path in the index, None if it is missing."""

    def touch(self, record: int) -> None:
        """Makes programs of this node look for outputs in that directory from now on."""
