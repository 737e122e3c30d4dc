"""A discrete-event simulation of fetches between nodes.

Each file goes through queues, first come first served: the thread of the daemon that asks, the
thread of the daemon that has the file, the link out of that node, the links up from its leaf and
down to the other leaf if they differ, and the link into the node that asked. So a queue forms where
many nodes ask one node (a hot rank), and where many answer one node at once (incast)."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from parts import Job, Machine, Measured

_ASK, _SERVE, _UP, _DOWN, _COME, _END = range(6)

Holders = Callable[[random.Random, int], int]


@dataclass(frozen=True)
class Traffic:
    """The result of a simulation. files_per_s: of a node, until the last one ends. late_s: one
    fetch in a thousand takes longer. queued_s: the mean wait of a fetch in all queues. busiest: the
    share of the time in which the busiest link out of a node sends."""

    files_per_s: float
    median_s: float
    late_s: float
    queued_s: float
    busiest: float


def anywhere(nodes: int) -> Holders:
    """Returns holders of files such that every node has equally many of the files that are read."""
    return lambda chance, _: chance.randrange(nodes)


def hot(nodes: int, share: float, replicas: int) -> Holders:
    """Returns holders such that `share` of the files that are read is only on `replicas` nodes, for
    example a validation set in one pack."""

    def holder(chance: random.Random, _: int) -> int:
        return chance.randrange(replicas if chance.random() < share else nodes)

    return holder


class _Queues:
    """Servers that each handle one item at a time. free_s: when each is free again."""

    def __init__(self, count: int) -> None:
        self.free_s = [0.0] * count
        self.busy_s = [0.0] * count

    def through(self, number: int, now_s: float, takes_s: float) -> float:
        """Returns when an item that arrives now is done."""
        start_s = max(now_s, self.free_s[number])
        self.free_s[number] = start_s + takes_s
        self.busy_s[number] += takes_s
        return self.free_s[number]


class Simulation:
    """A part of one epoch: each reader reads `files` files."""

    def __init__(
        self, nodes: int, machine: Machine, measured: Measured, job: Job, holders: Holders
    ) -> None:
        self._nodes, self._machine, self._measured, self._job = nodes, machine, measured, job
        self._holders = holders
        self._chance = random.Random(1)
        leaves = -(-nodes // machine.leaf_nodes)
        self._threads, self._out, self._in = _Queues(nodes), _Queues(nodes), _Queues(nodes)
        self._up, self._down = _Queues(leaves), _Queues(leaves)
        self._wire_s = job.file_bytes / machine.link_bytes_per_s
        self._leaf_wire_s = self._wire_s / machine.uplinks
        self._took_s: list[float] = []

    def run(self, files: int) -> Traffic:
        """Makes each reader read `files` files, and returns when the last of them ends, like the
        ranks of a job that wait for each other."""
        left = [files] * (self._nodes * self._job.readers)
        # (time, stage, reader, holder of the file, when the file was asked for)
        events = [(self._chance.random() * 1e-5, _ASK, n, 0, 0.0) for n in range(len(left))]
        heapq.heapify(events)
        ended: list[tuple[float, float]] = []
        while events:
            now_s, stage, reader, holder, since_s = events[0]
            if stage == _ASK:
                holder, since_s = self._holders(self._chance, reader), now_s
            if stage != _END:
                next_s, stage = self._advance(stage, reader // self._job.readers, holder, now_s)
                heapq.heapreplace(events, (next_s, stage, reader, holder, since_s))
                continue
            ended.append((now_s, now_s - since_s))
            left[reader] -= 1
            if left[reader]:
                heapq.heapreplace(events, (now_s + self._job.compute_s, _ASK, reader, 0, 0.0))
            else:
                heapq.heappop(events)
        return self._summed(ended)

    def _advance(self, stage: int, node: int, holder: int, now_s: float) -> tuple[float, int]:
        """Passes a fetch through a queue. Returns when it is through, and its next stage."""
        machine, measured = self._machine, self._measured
        copied_s = self._job.file_bytes / measured.copy_bytes_per_s
        leaf, other = node // machine.leaf_nodes, holder // machine.leaf_nodes
        # The file is in the local page cache: no daemon, no network.
        if stage == _ASK and node == holder:
            return now_s + copied_s, _END
        if stage == _ASK:
            return self._threads.through(node, now_s, measured.fetch_s) + machine.latency_s, _SERVE
        if stage == _SERVE:  # the link sends replies in the order in which the thread makes them
            served_s = self._threads.through(holder, now_s, measured.serve_s)
            sent_s = self._out.through(holder, served_s, self._wire_s)
            return sent_s, _COME if leaf == other else _UP
        if stage == _UP:
            return self._up.through(other, now_s, self._leaf_wire_s), _DOWN
        if stage == _DOWN:
            return self._down.through(leaf, now_s, self._leaf_wire_s), _COME
        # The bytes arrive while they are sent, so only bytes that others sent meanwhile delay them.
        came_s = max(now_s, self._in.through(node, now_s - self._wire_s, self._wire_s))
        return came_s + machine.latency_s + measured.read_s + copied_s, _END

    def _summed(self, ended: list[tuple[float, float]]) -> Traffic:
        took_s = sorted(took for _, took in ended)
        last_s = ended[-1][0]
        return Traffic(
            files_per_s=len(ended) / last_s / self._nodes,
            median_s=took_s[len(took_s) // 2],
            late_s=took_s[len(took_s) * 999 // 1000],
            queued_s=max(0.0, sum(took_s) / len(took_s) - took_s[0]),
            busiest=max(self._out.busy_s) / last_s,
        )
