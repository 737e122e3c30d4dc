"""What parts of the outputs need of rooms above them. All of it runs in the outputs thread: between
two awaits nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from fanstore.outputs.model.entries import Attr, Entry, Place


class Publisher(Protocol):
    """What Drafts calls at the end of a draft; namespace/context.py is it."""

    async def publish(self, object_id: int, attr: Attr) -> Entry | None:
        """Makes the draft what its name stands for, on all ranks; it is still known to Drafts.
        Discards its object and returns None when the name is gone. Raises OSError when the home
        rank cannot be reached; the reservation is gone then, the object stays."""

    async def release(self, object_id: int) -> None:
        """Ends the draft, still known to Drafts, without publication; its object stays the
        caller's."""

    async def publish_partial(self, object_id: int, attr: Attr) -> None:
        """Publishes the draft under a name that says that it is not whole (partial.py). Raises
        OSError: it stays."""


class Observer(Protocol):
    """Is told what changed, on the rank whose client changed it, in its order. Its methods are
    cheap and never wait."""

    def together(self) -> AbstractContextManager[None]:
        """What is told within belongs together, and costs less so."""

    def published(self, place: Place, entry: Entry) -> None:
        """A file has got its name, and its final bytes."""

    def changed(self, place: Place) -> None:
        """Any other change: a name is new, gone or stands for something else, or its attributes are
        new. Of a rename the new name is told first."""

    def moved(self, place: Place) -> None:
        """As `changed`, of a directory that has come there with all that is in it."""

    def stranded(self, place: Place, entry: Entry) -> None:
        """An object of this rank could not be published, as the home rank of its name is lost."""


class Inputs(Protocol):
    """The files of a mount's dataset. Paths are relative to the mount, in normal form."""

    prefixes: Sequence[bytes]
    """The mount prefix first, then other spellings of it. Absolute, no slash at the end."""

    def kind(self, path: bytes) -> str:
        """Returns what the path is: "missing", "directory", "link" or "file"."""

    def target(self, path: bytes) -> bytes:
        """Returns the target of a symbolic link."""

    def record(self, path: bytes) -> int | None:
        """Returns the record id of the path in the index, None if it is missing."""

    def touch(self, record: int) -> None:
        """Has clients of this node ask the daemon for missing names in that directory from now
        on."""
