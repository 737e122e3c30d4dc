"""Tells what the end of a draft means from what is known of the processes that wrote it."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass, field

from fanstore.outputs.drafts.watch import Process

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


@dataclass(eq=False)
class Holder:
    """A process that holds a draft. granted_s: when opens were allowed to it that it has not
    closed."""

    process: Process
    says: Says = Says.HOLDS
    granted_s: list[float] = field(default_factory=list)

    def closed_one(self, now_s: float) -> None:
        """Notes that it closed all that it had opened: at least its oldest grant was used."""
        self.says = Says.CLOSED
        self.granted_s = [at_s for at_s in self.granted_s[1:] if at_s >= now_s - _LATE_GRANT_S]

    def leaves(self, says: Says) -> None:
        """Notes that it opens nothing more until it has gone, or is another program."""
        self.says = says
        self.granted_s.clear()

    @property
    def left(self) -> bool:
        """Whether it has gone, or will go, in order."""
        return self.says is Says.LEAVES or (self.says is Says.HANDS_ON and not self.process.killed)

    def may_open(self, now_s: float) -> bool:
        """Tells whether an open that was allowed may yet come."""
        granted_s = self.granted_s
        return not self.process.dead and bool(granted_s) and now_s < granted_s[-1] + GRANT_S


def judge(holders: Collection[Holder], waits: bool = True) -> Verdict:
    """Decides about a draft that nobody writes, none of whose holders has just said that it closed
    it. waits: for holders that are about to end."""
    ending = {each for each in holders if waits and each.process.is_ending()}
    cut_off = {
        each
        for each in holders
        if each.says is Says.HOLDS
        or (each.says is Says.HANDS_ON and (each.process.killed or each in ending))
    }
    closed = {each for each in holders if each.says is Says.CLOSED}
    if not cut_off and len(closed) < len(holders):
        return Verdict.PUBLISH  # one has left in order
    decisive = cut_off or closed
    if any(not each.process.dead for each in decisive - ending):
        return Verdict.PUBLISH  # a mapping has ended, or it closed it without the library
    return Verdict.WAIT if decisive & ending else Verdict.DROP
