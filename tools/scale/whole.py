"""Computes how long start, staging, an epoch and the end of a job take on many nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from parts import Job, Machine, Measured
from traffic import Holders, Simulation, Traffic, anywhere

FETCHES_MOST = 150_000


@dataclass(frozen=True)
class Start:
    """The parts of a start, in seconds. python_s: interpreters and imports, on all nodes at once.
    index_s: until each node has the index. told_s: the exchange of what ranks report about
    themselves."""

    python_s: float
    mpi_s: float
    told_s: float
    index_s: float
    staging_s: float

    @property
    def total_s(self) -> float:
        return self.python_s + self.mpi_s + self.told_s + self.index_s + self.staging_s


def start_of(nodes: int, machine: Machine, measured: Measured, job: Job) -> Start:
    """Returns the start of a job: everything until the command starts."""
    rounds = math.ceil(math.log2(nodes)) if nodes > 1 else 0
    told_bytes = nodes * measured.told_bytes
    told_s = measured.staging_collectives * rounds * machine.latency_s
    told_s += told_bytes / machine.link_bytes_per_s + nodes * measured.rank_here_s
    index_bytes = job.index_bytes()
    index_s = index_bytes / machine.shared_rank_bytes_per_s + index_bytes / machine.disk_bytes_per_s
    if nodes > 1:  # MPI scatters and gathers it: the bytes pass each link twice
        index_s += 2 * index_bytes / machine.link_bytes_per_s + rounds * machine.latency_s
    share_bytes = job.dataset_bytes / nodes
    shared_s = max(
        job.dataset_bytes / machine.shared_bytes_per_s,
        share_bytes / min(machine.shared_rank_bytes_per_s, machine.disk_bytes_per_s),
    )
    copies = min(job.replicas, nodes) - 1
    copied_s = copies * share_bytes / min(machine.link_bytes_per_s, machine.disk_bytes_per_s)
    mpi_s = measured.mpi_s + nodes * machine.mpi_rank_s + measured.serve_rank_s
    return Start(measured.python_s, mpi_s, told_s, index_s, shared_s + copied_s)


def end_s(nodes: int, machine: Machine, measured: Measured) -> float:
    """Returns the time from the end of the last command until rank 0 has printed the summary: two
    notices for each rank, then all statuses go to rank 0."""
    notices_s = 2 * (nodes - 1) * measured.notice_s
    statuses_s = nodes * measured.status_bytes / machine.link_bytes_per_s
    return notices_s + statuses_s + nodes * measured.status_s


def memory_bytes(nodes: int, measured: Measured) -> int:
    """Returns the memory of a daemon for the other ranks: rows of its own tables and MPI's, and
    received reports."""
    return nodes * (measured.own_bytes_a_rank + measured.told_bytes)


def traffic_of(
    nodes: int, machine: Machine, measured: Measured, job: Job, holders: Holders | None = None
) -> Traffic:
    """Simulates a part of an epoch with a bounded number of fetches."""
    readers = nodes * job.readers
    files = max(6, min(200, FETCHES_MOST // readers))
    simulation = Simulation(nodes, machine, measured, job, holders or anywhere(nodes))
    return simulation.run(files)


def epoch_s(nodes: int, job: Job, traffic: Traffic) -> float:
    """Returns the time in which all nodes together read each file once."""
    return job.files / nodes / traffic.files_per_s
