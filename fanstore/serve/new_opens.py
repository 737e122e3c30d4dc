"""What programs have opened since the last look, read out of the lanes of the access trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.trace.lanes import LaneFile
from fanstore.trace.notes import decode
from fanstore.trace.tables import NO_FILE

if TYPE_CHECKING:
    from numpy.typing import NDArray


class NewOpens:
    """Reads the notes of opens on this node; what was opened before it was made is left out."""

    def __init__(self, segment: str) -> None:
        """Raises FanstoreError or OSError where the segment has no lanes."""
        self._file = LaneFile(segment)
        self._taken = self._file.lanes["head"].copy()

    def take(self) -> dict[int, NDArray[np.uint64]]:
        """Returns the record ids that were opened since the last call, by the number of the mount:
        those of each thread in their order, of several threads one after the other. Notes that were
        overwritten meanwhile are left out."""
        heads = self._file.lanes["head"].copy()
        parts = [self._of_lane(int(lane)) for lane in np.flatnonzero(heads > self._taken)]
        if not parts:
            return {}
        opens = np.concatenate(parts)
        return {
            int(mount): opens["file"][opens["dataset"] == mount].astype(np.uint64)
            for mount in np.unique(opens["dataset"])
        }

    def _of_lane(self, lane: int) -> NDArray[np.void]:
        notes, _, self._taken[lane] = self._file.notes_of(lane, int(self._taken[lane]))
        nobody = np.zeros(len(notes), np.uint32)
        opens, _, _ = decode(notes, nobody, 0)
        found: NDArray[np.void] = opens[opens["file"] != NO_FILE]
        return found
