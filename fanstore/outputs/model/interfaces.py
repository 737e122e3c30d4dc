"""What the parts of the outputs need of one another. All of it runs in the outputs thread: between
two awaits nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fanstore.outputs.model.entries import Attr, Changes, Entry, Place


class Drafts(Protocol):
    """The objects that programs of this node are writing."""

    def at(self, place: Place) -> int | None:
        """The draft of this rank that is to be published there."""

    def find(self, place: Place, pid: int) -> int | None:
        """The same, if that process holds it."""

    def held(self, mount: int, directory: bytes, pid: int) -> Sequence[tuple[bytes, int]]:
        """Names and objects of the drafts that a process holds in a directory."""

    def within(self, mount: int, directory: bytes) -> Sequence[int]:
        """The drafts of this rank in a directory."""

    def place_of(self, object_id: int) -> Place | None:
        """Where a draft is to be published; None: nowhere (its name was removed), or unknown."""

    def begin(self, place: Place, object_id: int, pid: int) -> None:
        """A process was allowed to open a new object for writing. While it may be about to, nobody
        having it open does not mean that it is finished."""

    async def join(self, object_id: int, pid: int) -> bool:
        """A process wants to write a draft, too: allowed while that is empty, and for its holders.
        Waits until the file is there."""

    def move(self, object_id: int, place: Place) -> None:
        """A draft was renamed. Nothing happens when it is unknown."""

    def move_tree(self, mount: int, old: bytes, new: bytes) -> None:
        """A directory was renamed (both relative to the mount): so are the drafts at any depth."""

    def detach(self, object_id: int) -> None:
        """A draft has no name any more: it is never published. Nothing happens when it is
        unknown."""

    async def look(self, object_id: int) -> None:
        """Publishes or drops a draft if it is finished; waits for that when it is under way."""

    async def settle(self, pid: int, objects: Sequence[int]) -> bool:
        """A process let go of them (without objects: of some of its). Whether all are finished.
        Raises the OSError of a publication."""

    def hold(self, pid: int, objects: Sequence[int]) -> None:
        """A process holds them, too."""

    def hand_on(self, pid: int, objects: Sequence[int]) -> None:
        """A process is about to exec; they go on to the new program."""

    async def leave(self, pid: int, objects: Sequence[int]) -> None:
        """A process is about to exec or exit, which lets go of them (without objects: of all)."""

    async def abandon(self, pid: int, objects: Sequence[int]) -> None:
        """An open that was allowed failed."""


class Publisher(Protocol):
    """What Drafts calls at the end of a draft (Operations)."""

    async def publish(self, object_id: int, attr: Attr) -> None:
        """The draft, still known to Drafts, becomes what its name stands for, on all ranks.
        Discards its object when the name is gone. Raises OSError when the home rank cannot be
        reached; the reservation is gone then, the object stays."""

    async def release(self, object_id: int) -> None:
        """The draft, still known to Drafts, ends without publication; its object is the
        caller's."""

    async def publish_partial(self, object_id: int, attr: Attr) -> None:
        """The same, but its object gets a name that says that it is not whole (partial.py).
        Raises OSError: it stays."""


class ObjectStore(Protocol):
    """The real files of outputs. Objects may be other ranks' unless said otherwise."""

    def new_id(self) -> int:
        """An identity of this rank that was never used."""

    def path(self, object_id: int) -> bytes:
        """Where the file of an object of this rank is. Absolute."""

    def attr(self, object_id: int) -> Attr:
        """Attributes of an object of this rank as they are now. Raises OSError."""

    def create(self, object_id: int, mode: int) -> Attr:
        """Makes an empty file, or a fifo (by the type in mode), with exactly that mode. Of a socket
        only the attributes: the client binds it."""

    async def copy(self, entry: Entry, object_id: int) -> None:
        """Makes a new object of this rank with the bytes and the mode of an entry. Raises OSError
        and leaves nothing behind."""

    async def local_path(self, entry: Entry) -> bytes:
        """A file on this node with the bytes of an entry. Raises OSError; ENXIO for other ranks'
        fifos and sockets."""

    async def change(self, object_id: int, changes: Changes) -> Attr:
        """Changes the attributes of the real file, wherever it is; those afterwards."""

    def copy_changes(self, object_id: int) -> Changes | None:
        """How a program changed the attributes of this node's copy of another rank's object: None
        if it did not. Raises OSError."""

    async def truncate(self, object_id: int, size: int) -> None:
        """ftruncate(2) of an object of this rank."""

    def discard(self, object_id: int) -> None:
        """Nobody can open it by a name any more: removes its file and the copies of other ranks."""


class Observer(Protocol):
    """Told what changed, on the rank whose client changed it, in its order. Cheap; never waits."""

    def published(self, place: Place, entry: Entry) -> None:
        """A file has its final bytes."""

    def changed(self, place: Place) -> None:
        """Anything else: a name is new, gone or stands for something else, or its attributes. Of a
        rename the new name first."""

    def drafted(self, place: Place, object_id: int) -> None:
        """An object of this rank is being written, to be published there."""

    def stranded(self, place: Place, entry: Entry) -> None:
        """An object of this rank could not be published: the home rank of its name is lost."""

    def discarded(self, object_id: int) -> None:
        """On the owner: an object is gone, replaced or unlinked."""


class Inputs(Protocol):
    """The files of a mount's dataset. Paths are relative to the mount, in normal form."""

    prefixes: Sequence[bytes]
    """The mount prefix first, then other spellings of it. Absolute, no slash at the end."""

    def kind(self, path: bytes) -> str:
        """One of "missing", "directory", "link" and "file"."""

    def target(self, path: bytes) -> bytes:
        """That of a link."""

    def record(self, path: bytes) -> int | None:
        """Its id in the index."""

    def touched(self, record: int) -> bool:
        """Whether clients of this node ask for missing names in that directory."""

    def touch(self, record: int) -> None:
        """From now on they do."""
