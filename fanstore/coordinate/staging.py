"""Who prepares which batch, and when its slot is free again. No sockets, clock or memory: the owner
of a `Staging` (fanstore.coordinate.service) tells it what happened, and when."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fanstore.coordinate.messages import ArrayLayout

Layout = Sequence[ArrayLayout]


def preparer(epoch: int, batch: int, roster: Sequence[int], able: Collection[int]) -> int:
    """Returns which member prepares a batch. roster: the members when the epoch began, in order;
    able: those of them that still prepare, at least one. The members take turns; the turns of one
    that no longer prepares are shared out among the others in the same way."""
    first = roster[(epoch + batch) % len(roster)]
    if first in able:
        return first
    others = sorted(able)
    return others[(epoch + batch // len(roster)) % len(others)]


@dataclass(frozen=True)
class Grant:
    """Leave to write one batch into one slot."""

    member: int
    epoch: int
    batch: int
    slot: int


@dataclass
class Staging:
    """The state of one coordination. jobs: how many are waited for before the first epoch;
    batches: of an epoch; window: how many batches are staged at most; spare: slots beyond these,
    which take the place of those that a stalled worker may still write to; deadline_s: how long a
    member may take to prepare a batch before others do."""

    jobs: int
    batches: int
    window: int
    spare: int
    deadline_s: float
    epoch: int = -1
    roster: tuple[int, ...] = ()
    able: set[int] = field(default_factory=set)
    stalled: set[int] = field(default_factory=set)  # members that owe, and ask for no work since
    members: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)  # members that want the next epoch
    at: dict[int, int] = field(default_factory=dict)  # the batch that each member uses next
    grants: dict[int, Grant] = field(default_factory=dict)  # by worker
    ready: dict[int, tuple[int, Layout]] = field(default_factory=dict)  # batch: slot, layout
    revoked: set[int] = field(default_factory=set)  # workers whose batch others took over
    seen: int = 0  # members that ever joined
    failed: dict[int, int] = field(default_factory=dict)  # member: batch
    _due_s: dict[int, float] = field(default_factory=dict)

    def join(self) -> int:
        """Returns the number of a new member, which takes part from the next epoch on."""
        self.seen += 1
        self.members.add(self.seen)
        return self.seen

    def leave(self, member: int) -> None:
        """Removes a member that ended or died: it is no longer waited for. Slots that its workers
        may still write to stay taken until `end_worker`."""
        self.members.discard(member)
        self.waiting.discard(member)
        self.able.discard(member)
        self.stalled.discard(member)
        self.at.pop(member, None)
        if not self.able:  # those taken for stalled are all that is left
            self.able = self.at.keys() - self.failed.keys()
        self._release()
        self._begin_if_all()

    def begin(self, member: int) -> None:
        """Says that a member wants the next epoch, which begins when all members do."""
        self.waiting.add(member)
        self._begin_if_all()

    def has_begun(self, member: int) -> bool:
        """Tells whether the epoch that a member waited for has begun."""
        return member not in self.waiting and member in self.at

    def readmit(self, member: int) -> None:
        """Says that a worker asks for work: a member that was taken for stalled prepares again."""
        self.stalled.discard(member)
        if member in self.at and member not in self.failed:
            self.able.add(member)

    def work(self, worker: int, member: int) -> Grant | None:
        """Returns what a worker of a member is to prepare now, the lowest batch first, or None."""
        taken = {grant.slot for grant in self.grants.values()}
        taken |= {slot for slot, _ in self.ready.values()}
        free = [slot for slot in range(self.window + self.spare) if slot not in taken]
        for batch in self._due():
            if free and preparer(self.epoch, batch, self.roster, self.able) == member:
                self.grants[worker] = Grant(member, self.epoch, batch, free[0])
                return self.grants[worker]
        return None

    def filled(self, worker: int, layout: Layout) -> bool:
        """Takes the batch that a worker was granted. Returns False where others took it over, or
        nobody wants it any more."""
        is_wanted = self._is_wanted(worker)
        grant = self._return(worker)
        if not is_wanted:
            return False
        self._due_s.pop(grant.member, None)
        self.ready[grant.batch] = grant.slot, layout
        return True

    def fail(self, worker: int) -> None:
        """Says that a preparation raised: its member prepares nothing more in this epoch, others
        take its turns."""
        grant = self._return(worker)
        if grant.epoch == self.epoch and grant.member in self.at:
            self.able.discard(grant.member)
            self.failed[grant.member] = grant.batch

    def end_worker(self, worker: int) -> None:
        """Says that a worker's process has ended, and writes nothing more."""
        if worker in self.grants:
            self._return(worker)

    def is_hopeless(self) -> bool:
        """Tells whether batches are missing which nobody can prepare."""
        return (
            not self.able
            and not self._under_way()
            and any(at < self.batches for at in self.at.values())
        )

    def next(self, member: int) -> tuple[int, int, Layout] | None:
        """Returns (batch, slot, layout) of the batch that a member uses next, or None where that is
        not ready. At the end of the epoch the batch is `batches`, the slot -1."""
        batch = self.at[member]
        if batch >= self.batches:
            return self.batches, -1, ()
        return (batch, *self.ready[batch]) if batch in self.ready else None

    def used(self, member: int) -> None:
        """Says that a member has copied its batch: each gets one once. The last one frees it."""
        self.at[member] += 1
        self._release()

    def abandon(self, member: int) -> None:
        """Says that a member uses no more batches of this epoch. It goes on preparing."""
        if member in self.at:
            self.at[member] = self.batches
            self._release()

    def expire(self, now_s: float) -> list[int]:
        """Takes over from members that have owed a batch for longer than the deadline; returns
        them. The last one that prepares is left alone: nobody could take over."""
        owing: set[int] = set()
        missing = (b for b in range(self._low(), self._high()) if b not in self.ready)
        for batch in missing if self.able else ():
            holder = self._under_way().get(batch)
            owing.add(holder or preparer(self.epoch, batch, self.roster, self.able))
        self._due_s = {m: self._due_s.get(m, now_s) for m in owing}
        late = [m for m in sorted(owing & self.able) if now_s - self._due_s[m] > self.deadline_s]
        late.sort(key=lambda m: self._due_s[m])
        late = late[: max(0, len(self.able) - 1)]
        self.able.difference_update(late)
        self.stalled.update(late)
        self.revoked |= {w for w, grant in self.grants.items() if grant.member in late}
        return late

    def behind(self) -> list[int]:
        """The members whose use the oldest staged batch waits for."""
        return sorted(m for m, at in self.at.items() if at == self._low() < self.batches)

    def _due(self) -> list[int]:
        """The batches that may be prepared now and that nobody prepares."""
        if not self.able:
            return []
        under_way, window = self._under_way(), range(self._low(), self._high())
        return [b for b in window if b not in self.ready and b not in under_way]

    def _return(self, worker: int) -> Grant:
        self.revoked.discard(worker)
        return self.grants.pop(worker)

    def _under_way(self) -> dict[int, int]:
        """Who prepares which batch: member by batch."""
        return {g.batch: g.member for worker, g in self.grants.items() if self._is_wanted(worker)}

    def _is_wanted(self, worker: int) -> bool:
        """Whether what a worker prepares is still its to prepare, and not past."""
        grant = self.grants[worker]
        current = grant.epoch == self.epoch and grant.member in self.at
        current = current and worker not in self.revoked
        return current and grant.batch >= self._low() and grant.batch not in self.ready

    def _low(self) -> int:
        return min(self.at.values(), default=self.batches)

    def _high(self) -> int:
        return min(self._low() + self.window, self.batches)

    def _release(self) -> None:
        low = self._low()
        self.ready = {batch: held for batch, held in self.ready.items() if batch >= low}

    def _begin_if_all(self) -> None:
        if not self.members or self.waiting != self.members or self.seen < self.jobs:
            return
        self.epoch += 1
        self.roster = tuple(sorted(self.members))
        # Who stalled costs the others one wait, not one an epoch.
        self.able = self.members - self.stalled or set(self.roster)
        self.waiting, self.failed = set(), {}
        self.at = dict.fromkeys(self.roster, 0)
        self.ready, self._due_s = {}, {}
