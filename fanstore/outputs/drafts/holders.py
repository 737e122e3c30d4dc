"""Tells what the end of a draft means from what is known of the processes that wrote it."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

# An open that was allowed has happened, or never will, after that long; while it may be about to
# happen, nobody writing is no sign of an end.
GRANT_S = 10.0
# A process says that its last descriptor is closed: an open that another thread of it was allowed
# that recently may yet come.
_LATE_GRANT_S = 0.5


class Says(enum.Enum):
    """What a process has last said about its hold on a draft."""

    HOLDS = "it has a writable descriptor"
    CLOSED = "it has closed the last one; a mapping or another process may be left"
    LEAVES = "what it has ends with its exec or exit"
    HANDS_ON = "what it has goes on to a program that may say nothing"


class Verdict(enum.Enum):
    """What is to become of a draft that nobody writes any more."""

    PUBLISH = "its writers have closed it, or ended in order"
    DROP = "its writers were killed"
    WAIT = "a writer is ending: it will turn out how"


@dataclass
class Holder:
    """A process that holds a draft. killed: it is dead, and that by a signal, as far as is known;
    granted_s: when opens were allowed to it that it has not closed."""

    says: Says = Says.HOLDS
    dead: bool = False
    killed: bool = False
    granted_s: deque[float] = field(default_factory=deque)

    def closed_one(self, now_s: float) -> None:
        """Notes that it closed all that it had opened: at least its oldest grant was used."""
        self.says = Says.CLOSED
        if self.granted_s:
            self.granted_s.popleft()
        while self.granted_s and self.granted_s[0] < now_s - _LATE_GRANT_S:
            self.granted_s.popleft()

    def leaves(self, says: Says) -> None:
        """Notes that it opens nothing more until it has gone, or is another program."""
        self.says = says
        self.granted_s.clear()

    def died(self, killed: bool) -> None:
        """Notes that the process is gone."""
        self.dead = True
        self.killed = killed
        self.granted_s.clear()

    @property
    def left(self) -> bool:
        """Whether it has gone, or will go, in order."""
        return self.says is Says.LEAVES or (self.says is Says.HANDS_ON and not self.killed)

    def opens_until_s(self, now_s: float) -> float:
        """Returns until when an open that was allowed may come; a time before `now_s` if none
        may."""
        return self.granted_s[-1] + GRANT_S if self.granted_s else now_s - 1.0


def judge(holders: dict[int, Holder], is_ending: Callable[[int], bool]) -> Verdict:
    """Decides about a draft that nobody writes, none of whose holders has just said that it closed
    it.

    is_ending: tells whether a process that is not known to be dead is about to end.
    """
    ending = {pid for pid, each in holders.items() if not each.dead and is_ending(pid)}
    cut_off = {
        pid
        for pid, each in holders.items()
        if each.says is Says.HOLDS
        or (each.says is Says.HANDS_ON and (each.killed or pid in ending))
    }
    closed = {pid for pid, each in holders.items() if each.says is Says.CLOSED}
    left = holders.keys() - cut_off - closed
    for those in (cut_off, closed):
        if any(not holders[pid].dead for pid in those - ending):
            return Verdict.PUBLISH  # a mapping has ended, or it closed it without the library
        if those is closed and left:
            return Verdict.PUBLISH
        if those:
            return Verdict.WAIT if those & ending else Verdict.DROP
    return Verdict.PUBLISH if left else Verdict.DROP


def may_write(holders: Iterable[Holder]) -> bool:
    """Tells whether any holder has neither closed the draft nor ended; for file systems where the
    kernel does not tell."""
    return any(not holder.dead and holder.says is not Says.CLOSED for holder in holders)
