"""How the content of a tree's entries is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import xxhash

from fanstore.arrays import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fanstore.prepare.room import Room

EMPTY_CHECKSUM = xxhash.xxh3_64_intdigest(b"")
_STORED = {"offset": np.uint64, "stored_size": np.uint64, "checksum": np.uint64, "codec": np.uint8}


class Stored:
    """How the content of each entry of a tree is stored."""

    def __init__(self, count: int, room: Room) -> None:
        self.offset, self.stored_size, self.checksum, self.codec = (
            room.zeros(count, dtype) for dtype in _STORED.values()
        )
        self._room = room
        for part in room.pieces(count):
            self.checksum[part] = EMPTY_CHECKSUM

    def arrays(self) -> list[NDArray[Any]]:
        """The arrays, each with an element for each entry."""
        return [getattr(self, name) for name in _STORED]

    def filtered(self, keep: NDArray[np.bool_]) -> Stored:
        """Returns the same for the kept entries alone."""
        kept = Stored(0, self._room)
        for name, values in zip(_STORED, self.arrays(), strict=True):
            setattr(kept, name, self._room.kept(values, keep))
        return kept

    def spread(self, first: NDArray[np.int64]) -> None:
        """Gives every further name of a file what its first name has."""
        for part in self._room.pieces(len(first)):
            for values in self.arrays():
                values[part] = values[first[part]]
