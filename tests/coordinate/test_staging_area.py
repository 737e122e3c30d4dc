"""The state of a coordination alone: every interleaving of small ones, and many of larger ones."""

from __future__ import annotations

import copy
import random

import pytest
from soak import sampled

from fanstore.coordinate.staging import Grant, Staging, preparer

BATCHES = 3


class World:
    """Members with one worker each, of the same number; what they saw."""

    def __init__(self, members: int, batches: int, window: int) -> None:
        self.staging = Staging(members, batches, window, members, 1.0)
        self.used: dict[int, list[int]] = {self.staging.join(): [] for _ in range(members)}
        for member in self.used:
            self.staging.begin(member)
        self.contents: dict[int, tuple[int, int]] = {}  # by slot: epoch, batch
        self.stopped: set[int] = set()

    def steps(self) -> list[tuple[str, int]]:
        """What may happen next, dying and stalling apart."""
        found = []
        for member in sorted(self.staging.members):
            if member in self.staging.grants:
                found += [("fill", member)] if member not in self.stopped else []
            elif self.asks(copy.deepcopy(self.staging), member):
                found.append(("work", member))
            if (is_next := self.staging.next(member)) and is_next[1] >= 0:
                found.append(("use", member))
        return found

    @staticmethod
    def asks(staging: Staging, member: int) -> Grant | None:
        """What a worker gets that asks, as the service has it."""
        staging.readmit(member)
        return staging.work(member, member)

    def do(self, kind: str, member: int) -> None:
        """One step, with what must hold of it."""
        staging = self.staging
        if kind == "work":
            grant = self.asks(staging, member)
            assert grant is not None
            held = [g.slot for w, g in staging.grants.items() if w != member]
            assert grant.slot not in [*held, *(slot for slot, _ in staging.ready.values())]
            self.contents[grant.slot] = grant.epoch, grant.batch
        elif kind == "fill":
            staging.filled(member, None)
        elif kind == "use":
            found = staging.next(member)
            assert found is not None and self.contents[found[1]] == (staging.epoch, found[0])
            self.used[member].append(found[0])
            staging.used(member)
        elif kind == "leave":
            staging.leave(member)
            staging.end_worker(member)
        elif kind == "stall":
            self.stopped.add(member)
            staging.expire(0.0)
            staging.expire(9.0)
        assert len(staging.ready) <= staging.window

    def check_end(self) -> None:
        """Nothing can happen any more: each that lives has used each batch once."""
        for member in self.staging.members:
            assert self.used[member] == list(range(self.staging.batches))

    def key(self) -> str:
        return repr((self.staging, self.used, sorted(self.contents.items()), self.stopped))


@pytest.mark.parametrize("fault", [None, "leave", "stall"])
def test_every_interleaving_of_two_members_ends(fault: str | None) -> None:
    seen, todo, ends = set(), [(World(2, BATCHES, 2), False)], 0
    while todo:
        world, has_failed = todo.pop()
        steps = world.steps()
        if not steps and world.stopped:  # the deadline passes once more
            for now_s in (20.0, 30.0):
                world.staging.expire(now_s)
            steps = world.steps()
        if not steps:
            world.check_end()
            ends += 1
        if fault is not None and not has_failed:
            # A member that stalls holds a batch; one that leaves may do so at any moment.
            steps += [(fault, m) for m in (1, 2) if fault == "leave" or m in world.staging.grants]
        for kind, member in steps:
            after = copy.deepcopy(world)
            after.do(kind, member)
            if (key := after.key()) not in seen:
                seen.add(key)
                todo.append((after, has_failed or kind == fault))
    assert ends > 0


@pytest.mark.parametrize("seed", sampled(range(100), range(20)))
def test_four_members_of_which_some_die_end(seed: int) -> None:
    draw = random.Random(seed)
    world = World(4, 12, draw.randrange(1, 6))
    while steps := world.steps():
        members = sorted(world.staging.members)
        if len(members) > 1 and draw.random() < 0.02:
            world.do("leave", draw.choice(members))
        else:
            world.do(*draw.choice(steps))
    world.check_end()


def test_who_takes_over_follows_from_epoch_batch_and_members() -> None:
    roster = (1, 2, 3, 4)
    for batch in range(64):
        all_able = preparer(5, batch, roster, set(roster))
        fewer = preparer(5, batch, roster, {1, 2, 4})
        assert fewer == (all_able if all_able != 3 else fewer) and fewer != 3
    taken = [preparer(0, batch, roster, {1, 2, 4}) for batch in range(2, 50, 4)]
    assert {taken.count(member) for member in (1, 2, 4)} == {4}


def test_members_that_join_take_part_from_the_next_epoch_on() -> None:
    staging = Staging(1, 1, 1, 1, 1.0)
    first = staging.join()
    staging.begin(first)
    late = staging.join()
    staging.begin(late)
    assert staging.roster == (first,) and not staging.has_begun(late)
    staging.begin(first)
    assert staging.epoch == 1 and staging.roster == (first, late)


def test_a_member_that_stalls_is_not_waited_for_in_later_epochs() -> None:
    staging = Staging(jobs=2, batches=2, window=2, spare=2, deadline_s=1.0)
    first, second = staging.join(), staging.join()
    for epoch in range(3):
        staging.begin(first)
        staging.begin(second)
        if epoch == 0:
            assert staging.able == {first, second}
            assert staging.work(first, first) and staging.filled(first, None)
            assert staging.work(second, second) is not None
            assert staging.expire(0.0) == [] and staging.expire(9.0) == [second]
        assert staging.able == {first}
        while (grant := staging.work(first, first)) is not None:
            assert staging.filled(first, None) and grant.member == first
        for member in (first, second):
            while staging.at[member] < 2:
                staging.used(member)
    staging.readmit(second)
    staging.begin(first)
    staging.begin(second)
    assert staging.able == {first, second}
