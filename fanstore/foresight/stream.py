"""What one loader reads of one mount in one epoch: told to the sink, and followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.foresight.order.expected import Expected
from fanstore.foresight.order.follow import Follower
from fanstore.foresight.sink import Sink

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PIECE = 32  # opens that a follower takes at once, at least: the order in them does not count


class Stream:
    """The epoch of a loader of process `pid`. known: how it is known, for people."""

    def __init__(self, sink: Sink, pid: int, expected: Expected, known: str, token: int) -> None:
        """token: what the sink calls it."""
        self.pid = pid
        self.mount = expected.mount
        self.known = known
        self.follower = Follower(expected)
        self._sink = sink
        self._dropped = 0  # samples that the follower does not know of any more
        self._end = len(expected.records)
        self._pieces = [(token, 0, self._end)]  # token, begin, end

    def extend(self, records: NDArray[np.uint64], batch: int) -> None:
        """More is read behind what was expected. Raises OSError."""
        if self.follower.broken:
            return
        behind = self._pieces[-1][0] if self._pieces else 0
        self._dropped += self.follower.extend(records, batch)
        token = self._sink.begin(Expected(self.mount, records), behind)
        self._pieces.append((token, self._end, self._end + len(records)))
        self._end += len(records)
        self._advance()

    def note(self, records: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Takes opens; returns those that may be of others."""
        follower = self.follower
        if follower.broken or not len(records):
            return records
        step = max(_PIECE, follower.reordered)
        left = []
        for at in range(0, len(records), step):
            follower.note(records[at : at + step])
            left.append(follower.left)
        if follower.broken:
            self.end()
        else:
            self._advance()
        return np.concatenate(left)

    def catch_up(self, opened: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Takes what was opened since the loader began, and nobody expected. Returns the rest."""
        if self.follower.broken:
            return opened
        self.follower.catch_up(opened)
        self._advance()
        return self.follower.left

    def _advance(self) -> None:
        position = self._dropped + self.follower.position
        read = self._dropped + self.follower.read
        while len(self._pieces) > 1 and self._pieces[0][2] <= position:
            self._sink.end(self._pieces.pop(0)[0])
        token, begin, end = self._pieces[0]
        if position > begin:
            self._sink.advance(token, position - begin, min(read, end) - begin)

    def end(self) -> None:
        """Tells the sink that it is read no further."""
        for token, _, _ in self._pieces:
            self._sink.end(token)
        self._pieces = []
