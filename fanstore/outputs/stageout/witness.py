"""Tells what was lost with a rank: the next rank is told of each of its outputs."""

from __future__ import annotations

from fanstore.outputs.stageout.journal import Name
from fanstore.peers.interface import Peers


class Witness:
    """Keeps what the rank before this one published and did not place yet."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._next = (peers.rank + 1) % peers.world_size
        self._before = (peers.rank - 1) % peers.world_size
        self._seen: dict[int, Name] = {}
        peers.serve("witness", lambda _, object_id, name: self._see(object_id, name))

    def tell(self, object_id: int, name: Name | None) -> None:
        """Tells the next rank that an object of this rank is published under a name and is nowhere
        else; None: it need not be remembered any more."""
        if self._next != self._peers.rank:
            self._peers.tell(self._next, "witness", object_id, name)

    def _see(self, object_id: int, name: Name | None) -> None:
        if name is None:
            self._seen.pop(object_id, None)
        else:
            self._seen[object_id] = name

    def lost(self) -> list[Name]:
        """Returns the outputs that were lost with the rank before this one."""
        gone = self._before != self._peers.rank and self._peers.is_lost(self._before)
        return sorted(set(self._seen.values())) if gone else []
