"""Decides when to print a line about reads that wait for a rank or the shared file system. Uses no
clock and no I/O."""

from __future__ import annotations

LOOK_EVERY_S = 1.0
_TELL_AFTER_S = 2.0
_SHARED_TELL_AFTER_S = 10.0
_QUIET_S = 60.0  # the shortest time between two lines about one rank


class Stalls:
    """Remembers which lines were printed, and when, so that none is repeated too soon."""

    def __init__(self, deadline_s: float, shared_deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._shared_deadline_s = shared_deadline_s
        self._patience_s = min(_TELL_AFTER_S, deadline_s / 2)
        self._told_s: dict[tuple[str, int], float] = {}
        self._away: set[int] = set()

    def lines(
        self,
        now_s: float,
        waits_for: tuple[int, float],
        late: set[int],
        lost: set[int],
        shared_waited_s: float = 0.0,
    ) -> list[str]:
        """Returns the lines to print now. waits_for: the rank that the oldest fetch under way asks,
        and that fetch's age in seconds. late: ranks that missed the deadline of a request; lost:
        ranks that are no longer asked. shared_waited_s: the age of the oldest read of the shared
        file system under way."""
        rank, waited_s = waits_for
        said = []
        if waited_s >= self._patience_s and self._may_tell("slow", rank, now_s):
            said.append(
                f"reads wait for rank {rank}, silent for {waited_s:.0f} s; after "
                f"{self._deadline_s:g} s (deadline_s) they go elsewhere"
            )
        patience_s = min(_SHARED_TELL_AFTER_S, self._shared_deadline_s / 2)
        if shared_waited_s >= patience_s and self._may_tell("shared", 0, now_s):
            said.append(
                f"reads wait for the shared file system, silent for {shared_waited_s:.0f} s; after "
                f"{self._shared_deadline_s:g} s (shared_deadline_s) they fail"
            )
        gone = late | lost
        for each in sorted(gone - self._away):
            if self._may_tell("gone", each, now_s):
                self._away.add(each)
                said.append(
                    f"rank {each} does not answer: its packs are read from other ranks or the "
                    "shared file system"
                )
        said += [f"rank {each} answers again" for each in sorted(self._away - gone)]
        self._away &= gone
        return said

    def _may_tell(self, what: str, rank: int, now_s: float) -> bool:
        if now_s - self._told_s.get((what, rank), -_QUIET_S) < _QUIET_S:
            return False
        self._told_s[what, rank] = now_s
        return True
