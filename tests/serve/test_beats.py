"""Heartbeats of many ranks: what they cost each, and that everyone hears of a failure."""

from __future__ import annotations

import collections
from typing import Any

import pytest

from fanstore import beats
from fanstore.beats import FAN_OUT, Beats, neighbours
from fanstore.startup import MpiWorld, RankLost

PATIENCE_S = 10.0
ANY_SOURCE = -1
SIZES = [1, 2, 17, 18, 300, 4096]


class Network:
    """What mpi4py's communicators do of it, for all ranks in one process. sent: how many messages
    each rank sent."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.boxes: list[collections.deque[tuple[int, Any]]] = [
            collections.deque() for _ in range(size)
        ]
        self.sent = [0] * size


class Comm:
    """One rank's end of a Network; its own status and request, too."""

    def __init__(self, network: Network, rank: int) -> None:
        self.network, self.rank, self.size = network, rank, network.size

    def isend(self, value: Any, rank: int, _tag: int) -> Comm:
        self.network.sent[self.rank] += 1
        self.network.boxes[rank].append((self.rank, value))
        return self

    def iprobe(self, _source: int, _tag: int, _status: Any) -> bool:
        return bool(self.network.boxes[self.rank])

    def recv(self, source: int, tag: int) -> Any:
        sender, value = self.network.boxes[self.rank].popleft()
        assert sender == source
        return value

    def Get_source(self) -> int:
        return self.network.boxes[self.rank][0][0]

    def Test(self) -> bool:
        return True


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(beats.time, "monotonic", lambda: self.now_s)


def make(size: int) -> tuple[Network, list[Beats]]:
    network = Network(size)
    comms = [Comm(network, rank) for rank in range(size)]
    made = [Beats(comm, ANY_SOURCE, lambda comm=comm: comm, PATIENCE_S) for comm in comms]
    return network, made


@pytest.mark.parametrize("size", SIZES)
def test_the_tree_reaches_all_with_few_neighbours(size: int) -> None:
    near = [neighbours(rank, size) for rank in range(size)]
    assert all(rank in near[other] for rank in range(size) for other in near[rank])
    assert max(map(len, near)) <= min(size, FAN_OUT + 2) - 1
    seen, edge = {0}, [0]
    while edge:
        edge = [other for rank in edge for other in near[rank] if other not in seen]
        seen.update(edge)
    assert len(seen) == size


@pytest.mark.parametrize("size", SIZES)
def test_a_beat_costs_each_rank_a_few_messages(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    clock = Clock(monkeypatch)
    network, ranks = make(size)
    beat_count = 6
    for each in ranks:
        each.report((1, 2))
    for _ in range(beat_count):
        clock.now_s += 0.5
        for each in ranks:
            each.beat()
    assert max(network.sent) <= beat_count * (FAN_OUT + 1)
    assert sum(network.sent) == beat_count * 2 * (size - 1)
    assert ranks[0].report((1, 2)) == (size, 2 * size)
    assert all(each.failure is None for each in ranks)


@pytest.mark.parametrize("failed", [0, 5, 299])
def test_a_failure_reaches_all_at_once(monkeypatch: pytest.MonkeyPatch, failed: int) -> None:
    Clock(monkeypatch)
    _, ranks = make(300)
    ranks[failed].fail((failed, "no room", True))
    for _ in range(6):  # the longest way through the tree
        for each in ranks:
            each.beat()
    assert {each.failure for each in ranks} == {(failed, "no room", True)}


@pytest.mark.parametrize("silent", [0, 5, 299])
def test_a_silent_rank_is_found_and_told_of(monkeypatch: pytest.MonkeyPatch, silent: int) -> None:
    clock = Clock(monkeypatch)
    _, ranks = make(300)
    living = [each for rank, each in enumerate(ranks) if rank != silent]
    for _ in range(int(PATIENCE_S / 0.5) + 8):
        clock.now_s += 0.5
        for each in living:
            each.beat()
    said = f"not heard of for {PATIENCE_S:g} s"
    assert {each.failure for each in living} == {(silent, said, False)}


def test_who_stood_still_itself_finds_nobody_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    _, ranks = make(2)
    for each in ranks:
        each.beat()
    clock.now_s += 2 * PATIENCE_S
    ranks[0].hear()
    ranks[0].beat()
    assert ranks[0].failure is None


def world_of(network: Network, rank: int) -> MpiWorld:
    """A rank's world, as far as its heartbeats go."""
    world = MpiWorld.__new__(MpiWorld)
    world.rank = rank
    world._beats = Beats(Comm(network, rank), ANY_SOURCE, lambda: Comm(network, rank), PATIENCE_S)
    return world


def test_a_rank_that_others_have_given_up_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stood still, and goes on: who told it is gone, and says nothing more."""
    Clock(monkeypatch)
    network = Network(3)
    world = world_of(network, 2)
    other = Beats(Comm(network, 0), ANY_SOURCE, lambda: Comm(network, 0), PATIENCE_S)
    other.fail((2, "not heard of for 10 s", False))
    with pytest.raises(RankLost, match="rank 2: not heard of for 10 s"):
        world._beat()


def test_a_rank_that_failed_itself_tidies_up_undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch)
    world = world_of(Network(3), 2)
    world._beats.fail((2, "the disk is full", True))
    world._beat()
