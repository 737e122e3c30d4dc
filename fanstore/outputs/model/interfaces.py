"""What the parts of the outputs need of one another. All of it runs in the outputs thread: between
two awaits nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from fanstore.outputs.model.entries import Attr, Changes, Entry, Place


class Drafts(Protocol):
    """The objects that programs of this node are writing."""

    def at(self, place: Place) -> int | None:
        """Returns this rank's draft that is to be published at `place`, or None."""

    def find(self, place: Place, pid: int) -> int | None:
        """Returns this rank's draft that is to be published at `place` if that process holds it,
        else None."""

    def held(self, mount: int, directory: bytes, pid: int) -> Sequence[tuple[bytes, int]]:
        """Names and objects of the drafts that a process holds in a directory."""

    def within(self, mount: int, directory: bytes) -> Sequence[int]:
        """Returns this rank's drafts that are to be published in a directory."""

    def place_of(self, object_id: int) -> Place | None:
        """Returns where a draft is to be published; None if its name was removed, or it is no
        draft."""

    def begin(self, place: Place, object_id: int, pid: int) -> None:
        """Makes a draft of a new object that a process may open for writing from now on. For a
        moment it may not have opened it yet: the draft is not taken for finished meanwhile."""

    async def join(self, object_id: int, pid: int) -> bool:
        """Tells whether one more process may write a draft: one that is empty, or that it holds
        already. Waits until the file is there."""

    def move(self, object_id: int, place: Place) -> None:
        """Notes the new place of a draft that was renamed. Does nothing when it is unknown."""

    def move_tree(self, mount: int, old: bytes, new: bytes) -> None:
        """Notes that a directory was renamed (both paths relative to the mount), with the drafts at
        any depth in it."""

    def detach(self, object_id: int) -> None:
        """Notes that a draft has no name any more: it is never published. Does nothing when it is
        unknown."""

    def published(self, object_id: int) -> None:
        """Notes that a program has published an object that it created."""

    async def look(self, object_id: int) -> None:
        """Publishes or drops a draft if it is finished; waits for that when it is under way."""

    async def settle(self, pid: int, objects: Sequence[int]) -> bool:
        """Notes that a process closed its last descriptor of these drafts (none given: of some of
        its). Returns whether all of them are finished. Raises the OSError of a publication."""

    def hold(self, pid: int, objects: Sequence[int]) -> None:
        """Notes one more process that holds these drafts, as a child does after a fork."""

    def hand_on(self, pid: int, objects: Sequence[int]) -> None:
        """Notes that a process is about to exec and hands these drafts on to the new program."""

    async def leave(self, pid: int, objects: Sequence[int]) -> None:
        """Notes that a process is about to exec or exit and lets go of these drafts (none given: of
        all)."""

    async def abandon(self, pid: int, objects: Sequence[int]) -> None:
        """Notes that an open which was allowed has failed, so that nobody waits for it."""


class Publisher(Protocol):
    """What Drafts calls at the end of a draft; namespace/publishing.py is it."""

    async def publish(self, object_id: int, attr: Attr) -> None:
        """Makes the draft what its name stands for, on all ranks; it is still known to Drafts.
        Discards its object when the name is gone. Raises OSError when the home rank cannot be
        reached; the reservation is gone then, the object stays."""

    async def release(self, object_id: int) -> None:
        """Ends the draft, still known to Drafts, without publication; its object stays the
        caller's."""

    async def publish_partial(self, object_id: int, attr: Attr) -> None:
        """Publishes the draft under a name that says that it is not whole (partial.py). Raises
        OSError: it stays."""


class ObjectStore(Protocol):
    """The real files of outputs. Objects may be other ranks' unless said otherwise."""

    def new_id(self) -> int:
        """Returns an object id of this rank that was never used."""

    def path(self, object_id: int) -> bytes:
        """Returns the absolute path of an object of this rank."""

    def attr(self, object_id: int) -> Attr:
        """Returns the attributes that an object of this rank has now. Raises OSError."""

    def create(self, object_id: int, mode: int) -> Attr:
        """Makes an empty file with exactly that mode."""

    async def copy(self, entry: Entry, object_id: int) -> None:
        """Makes a new object of this rank with the bytes and the mode of an entry. Raises OSError
        and leaves nothing behind."""

    async def local_path(self, entry: Entry) -> bytes:
        """Returns the path of a file on this node with the bytes of an entry, fetched if need be.
        Raises OSError."""

    async def change(self, object_id: int, changes: Changes) -> Attr:
        """Changes the attributes of the real file, on whatever rank it is, and returns the new
        ones."""

    def copy_changes(self, object_id: int) -> Changes | None:
        """Returns how a program changed the attributes of this node's copy of another rank's
        object: None if it did not. Raises OSError."""

    async def truncate(self, object_id: int, size: int) -> None:
        """Cuts or extends an object of this rank to `size` bytes."""

    def discard(self, object_id: int) -> None:
        """Removes the file of an object that no name stands for any more, and the copies on other
        ranks."""


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

    def drafted(self, place: Place, object_id: int) -> None:
        """An object of this rank is being written, to be published at that place."""

    def stranded(self, place: Place, entry: Entry) -> None:
        """An object of this rank could not be published, as the home rank of its name is lost."""

    def discarded(self, object_id: int) -> None:
        """An object of this rank is gone: it was replaced or unlinked."""


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
