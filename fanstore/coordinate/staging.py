"""Decides who prepares which batch, and when its slot is free again. Uses no sockets, clock or
shared memory: fanstore.coordinate.service calls its methods with each event and its time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from fanstore.coordinate.messages import ArrayLayout

Layout = Sequence[ArrayLayout]


def preparer(epoch: int, batch: int, roster: Sequence[int], able: Collection[int]) -> int:
    """Returns the member that prepares a batch. roster: the members when the epoch began, in order;
    able: the members of it that still prepare, at least one. Members take turns; the turns of a
    member that no longer prepares go to the able members in rotation."""
    first = roster[(epoch + batch) % len(roster)]
    if first in able:
        return first
    others = sorted(able)
    return others[(epoch + batch // len(roster)) % len(others)]


@dataclass(frozen=True)
class Grant:
    """Permission to write one batch into one slot."""

    member: int
    epoch: int
    batch: int
    slot: int


@dataclass
class Staging:
    """The state of one coordination. jobs: the number that the first epoch waits for; batches:
    their number in an epoch; window: the most batches staged at a time; spare: extra slots, used
    while a stalled worker may still write to its own; deadline_s: seconds that a member has to
    prepare a batch before others take it over."""

    jobs: int
    batches: int
    window: int
    spare: int
    deadline_s: float
    epoch: int = -1
    roster: tuple[int, ...] = ()
    able: set[int] = field(default_factory=set)
    # Late members that have asked for no work since they were late.
    stalled: set[int] = field(default_factory=set)
    members: set[int] = field(default_factory=set)
    waiting: set[int] = field(default_factory=set)  # members that wait for the next epoch
    at: dict[int, int] = field(default_factory=dict)  # member: the batch that it uses next
    grants: dict[int, Grant] = field(default_factory=dict)  # worker: the batch that it may write
    ready: dict[int, tuple[int, Layout]] = field(default_factory=dict)  # batch: its slot and layout
    revoked: set[int] = field(default_factory=set)  # workers whose batch another member took over
    seen: int = 0  # members that ever joined
    failed: dict[int, int] = field(default_factory=dict)  # member: the batch for which it failed
    _due_s: dict[int, float] = field(default_factory=dict)

    def join(self) -> int:
        """Returns the number of a new member, which takes part from the next epoch on."""
        self.seen += 1
        self.members.add(self.seen)
        return self.seen

    def leave(self, member: int) -> None:
        """Removes a member that has left or died. Slots that its workers may still write to stay
        taken until `end_worker`."""
        self.members.discard(member)
        self.waiting.discard(member)
        self.able.discard(member)
        self.stalled.discard(member)
        self.at.pop(member, None)
        if not self.able:  # all members that prepared have left: only stalled ones remain
            self.able = self.at.keys() - self.failed.keys()
        self._release()
        self._begin_if_all()

    def begin(self, member: int) -> None:
        """Notes that a member asks for the next epoch, which begins when all members have asked."""
        self.waiting.add(member)
        self._begin_if_all()

    def has_begun(self, member: int) -> bool:
        """Returns whether the epoch that a member waited for has begun."""
        return member not in self.waiting and member in self.at

    def readmit(self, member: int) -> None:
        """Records that a worker of `member` asks for work. A stalled member gets its turns back."""
        self.stalled.discard(member)
        if member in self.at and member not in self.failed:
            self.able.add(member)

    def work(self, worker: int, member: int) -> Grant | None:
        """Grants a worker of `member` the lowest batch that the member is to prepare now; None if
        there is no such batch or no free slot."""
        taken = {grant.slot for grant in self.grants.values()}
        taken |= {slot for slot, _ in self.ready.values()}
        free = [slot for slot in range(self.window + self.spare) if slot not in taken]
        for batch in self._due():
            if free and preparer(self.epoch, batch, self.roster, self.able) == member:
                self.grants[worker] = Grant(member, self.epoch, batch, free[0])
                return self.grants[worker]
        return None

    def filled(self, worker: int, layout: Layout) -> bool:
        """Marks a granted batch as ready. Returns False if another member took it over or nobody
        needs it."""
        is_wanted = self._is_wanted(worker)
        grant = self._return(worker)
        if not is_wanted:
            return False
        self._due_s.pop(grant.member, None)
        self.ready[grant.batch] = grant.slot, layout
        return True

    def fail(self, worker: int) -> None:
        """Records that `prepare` raised in a worker: its member prepares nothing more in this
        epoch, and the others take its turns."""
        grant = self._return(worker)
        if grant.epoch == self.epoch and grant.member in self.at:
            self.able.discard(grant.member)
            self.failed[grant.member] = grant.batch

    def end_worker(self, worker: int) -> None:
        """Notes that a worker's process has ended and writes nothing more."""
        if worker in self.grants:
            self._return(worker)

    def is_hopeless(self) -> bool:
        """Returns whether some batches of the epoch are missing and no member can prepare them."""
        return (
            not self.able
            and not self._under_way()
            and any(at < self.batches for at in self.at.values())
        )

    def next(self, member: int) -> tuple[int, int, Layout] | None:
        """Returns (batch, slot, layout) of the batch that a member uses next, or None if it is not
        ready. At the end of the epoch the batch is `batches` and the slot -1."""
        batch = self.at[member]
        if batch >= self.batches:
            return self.batches, -1, ()
        return (batch, *self.ready[batch]) if batch in self.ready else None

    def used(self, member: int) -> None:
        """Records that a member has copied its batch. The slot is free when every member has."""
        self.at[member] += 1
        self._release()

    def abandon(self, member: int) -> None:
        """Records that a member uses no more batches of this epoch. It still prepares batches for
        others."""
        if member in self.at:
            self.at[member] = self.batches
            self._release()

    def expire(self, now_s: float) -> list[int]:
        """Finds the members that are late with a batch by more than the deadline, gives their turns
        to others and returns them. Keeps the last member that prepares: nobody could replace it."""
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
        """Returns the members that have not used the oldest staged batch yet."""
        return sorted(m for m, at in self.at.items() if at == self._low() < self.batches)

    def _due(self) -> list[int]:
        """Returns the batches that are within the window, missing, and granted to no worker."""
        if not self.able:
            return []
        under_way, window = self._under_way(), range(self._low(), self._high())
        return [b for b in window if b not in self.ready and b not in under_way]

    def _return(self, worker: int) -> Grant:
        self.revoked.discard(worker)
        return self.grants.pop(worker)

    def _under_way(self) -> dict[int, int]:
        """Returns the batches that workers are preparing now, each with the member of its
        worker."""
        return {g.batch: g.member for worker, g in self.grants.items() if self._is_wanted(worker)}

    def _is_wanted(self, worker: int) -> bool:
        """Returns whether members still need a worker's batch and no other worker was granted
        it."""
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
        # A stalled member delays the others once, not in every epoch.
        self.able = self.members - self.stalled or set(self.roster)
        self.waiting, self.failed = set(), {}
        self.at = dict.fromkeys(self.roster, 0)
        self.ready, self._due_s = {}, {}
