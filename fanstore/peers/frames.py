"""Messages of any length as pieces that the node daemon's core can send, and back."""

from __future__ import annotations

from collections.abc import Iterator

PIECE_BYTES = 2 << 20
_FIRST, _LAST = 1, 2


def pieces_of(message: bytes) -> Iterator[bytes]:
    """A byte that says where in its message a piece belongs, and the piece."""
    end = max(len(message), 1)
    for start in range(0, end, PIECE_BYTES):
        flags = _FIRST * (start == 0) + _LAST * (start + PIECE_BYTES >= end)
        yield bytes([flags]) + message[start : start + PIECE_BYTES]


class Joiner:
    """The messages of one sender, whose pieces come in order."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def join(self, piece: bytes) -> bytes | memoryview | None:
        """The message that a piece is the last of. A first one drops what was begun before: its
        sender could not send the rest."""
        flags = piece[0]
        if flags == _FIRST | _LAST:
            self._pieces.clear()
            return memoryview(piece)[1:]
        if flags & _FIRST:
            self._pieces.clear()
        self._pieces.append(piece[1:])
        if not flags & _LAST:
            return None
        message = b"".join(self._pieces)
        self._pieces.clear()
        return message
