"""The parts of a job on many nodes: what was measured here, and what is taken of a machine."""

from __future__ import annotations

from dataclasses import dataclass

GB = 1e9


@dataclass(frozen=True)
class Measured:
    """Figures of FanStore's own work. Two cores of an AMD EPYC, Python 3.11, MPICH over shared
    memory; they hold for any number of nodes.

    Measured as docs/scale.md says: python_s, mpi_s, serve_rank_s (the core and its cache),
    told_bytes (what each rank says of itself while staging) and rank_here_s (to take that in),
    status_bytes and status_s (the same of statuses). Worked out of docs/performance.md, where a
    read of 4 KiB takes 21.9 us and the transport 1.3 us of these: notice_s, serve_s and fetch_s
    (what the daemon's thread does for a request that it answers, and for one of its own), read_s
    (the rest, the waking of two threads in it) and copy_bytes_per_s. own_bytes_a_rank is an
    estimate.
    """

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
    """A machine, as papers describe one: nothing of it was measured here.

    Nodes are joined in leaves of `leaf_nodes`; a leaf has `uplinks` links of the same speed to the
    rest. latency_s: of one message. shared_bytes_per_s: of the shared file system in all, and
    `shared_rank_bytes_per_s` for one reader. mpi_rank_s: what MPI's start takes for each rank that
    there is, with the process manager's exchange of addresses.
    """

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
    """What is read, and how: `readers` programs a node, each of which asks for the next file when
    it has computed for `compute_s` on the last."""

    files: int
    file_bytes: int
    readers: int = 4
    compute_s: float = 0.0
    replicas: int = 1

    @property
    def dataset_bytes(self) -> float:
        return float(self.files) * self.file_bytes

    def index_bytes(self) -> float:
        """What the index of the dataset takes, at the bytes a file of docs/scale.md."""
        return 93.0 * self.files


# The CPU cluster of the FanStore paper (section 6.1, as text: Omni-Path, 100 Gb/s, fat tree); its
# leaves are assumed, not from the paper: 28 nodes with 20 links up.
PAPER = Machine(leaf_nodes=28, uplinks=20)
