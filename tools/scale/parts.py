"""The parts of a model of jobs on many nodes: figures measured here, and figures of a machine that
are assumed."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1e9


@dataclass(frozen=True)
class Measured:
    """Figures of FanStore's own work. Two cores of an AMD EPYC, Python 3.11, MPICH over shared
    memory; they hold for any number of nodes.

    Measured as docs/scale.md says: python_s, mpi_s, serve_rank_s (the core and its cache),
    told_bytes (the bytes that each rank sends about itself while staging) and rank_here_s (the time
    to receive them), status_bytes and status_s (the same for statuses). Computed from
    docs/performance.md, where a read of 4 KiB takes 21.9 us and the transport 1.3 us of these:
    notice_s, serve_s and fetch_s (the time of the daemon's thread for a request that it answers,
    and for one of its own), read_s (the rest, including the waking of two threads) and
    copy_bytes_per_s. own_bytes_a_rank is an estimate."""

    python_s: float = 0.22
    mpi_s: float = 0.08
    serve_rank_s: float = 0.06
    rank_here_s: float = 4e-6
    told_bytes: int = 602
    staging_collectives: int = 9
    status_bytes: int = 1900
    status_s: float = 12e-6
    notice_s: float = 1.5e-6
    serve_s: float = 2.0e-6
    fetch_s: float = 3.0e-6
    read_s: float = 17.0e-6
    copy_bytes_per_s: float = 10 * GB
    own_bytes_a_rank: int = 250


@dataclass(frozen=True)
class Machine:
    """A machine, with figures from papers: none was measured here.

    Nodes are joined in leaves of `leaf_nodes`; a leaf has `uplinks` links of the same speed to the
    rest. latency_s: of one message. shared_bytes_per_s: of the shared file system in all, and
    `shared_rank_bytes_per_s` for one reader. mpi_rank_s: the time of MPI's start for each rank of
    the job, including the process manager's exchange of addresses."""

    link_bytes_per_s: float = 12.5 * GB
    latency_s: float = 1.5e-6
    leaf_nodes: int = 32
    uplinks: int = 32
    shared_bytes_per_s: float = 100 * GB
    shared_rank_bytes_per_s: float = 1 * GB
    disk_bytes_per_s: float = 2 * GB
    mpi_rank_s: float = 200e-6


@dataclass(frozen=True)
class Job:
    """The reads of a job: each node runs `readers` programs, each of which asks for the next file
    after it has computed for `compute_s` on the last one."""

    files: int
    file_bytes: int
    readers: int = 4
    compute_s: float = 0.0
    replicas: int = 1

    @property
    def dataset_bytes(self) -> float:
        return float(self.files) * self.file_bytes

    def index_bytes(self) -> float:
        """The size of the dataset's index, by the bytes per file in docs/scale.md."""
        return 93.0 * self.files


# The CPU cluster of the FanStore paper (section 6.1: Omni-Path, 100 Gb/s, fat tree). Its leaves of
# 28 nodes with 20 links up are assumed, not from the paper.
PAPER = Machine(leaf_nodes=28, uplinks=20)
