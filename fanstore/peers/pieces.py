"""Splits messages of any length into pieces that the node daemon's core can send, and joins
them."""

from __future__ import annotations

from collections.abc import Iterator

PIECE_BYTES = 2 << 20
_FIRST, _LAST = 1, 2


def pieces_of(message: bytes) -> Iterator[bytes]:
    """Yields the pieces of a message, each after a byte of flags: is it the first, the last."""
    end = max(len(message), 1)
    for start in range(0, end, PIECE_BYTES):
        flags = _FIRST * (start == 0) + _LAST * (start + PIECE_BYTES >= end)
        yield bytes([flags]) + message[start : start + PIECE_BYTES]


class Joiner:
    """Joins the pieces that one sender sent, in order, into messages."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def join(self, piece: bytes) -> bytes | memoryview | None:
        """Returns the whole message where `piece` is its last, else None. A first piece drops what
        was begun before: its sender could not send the rest."""
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
