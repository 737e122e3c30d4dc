"""The sources from which samples are loaded under a placement, and how long a byte takes from each.

The code of a sample on a node combines the storage class in which the node keeps the sample, and
the fastest class in which another node does: own * (classes + 1) + other; `classes` stands for
none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy.placement.rules import fastest_elsewhere
from fanstore.study import formulas
from fanstore.study.machine import System

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ONE_BYTE = np.ones(1)


def codes_of(placement: NDArray[np.uint8], classes: int) -> NDArray[np.uint8]:
    """Returns the code of each sample on each node, with the code of the empty sample at the
    end."""
    nodes, files = placement.shape
    codes = np.full((nodes, files + 1), (classes + 1) ** 2 - 1, dtype=np.uint8)
    other = fastest_elsewhere(placement)
    # Node by node, because nodes x files take much memory.
    for row, kept, elsewhere in zip(codes, placement, other, strict=True):
        np.minimum(elsewhere, classes, out=row[:-1])
        row[:-1] += np.minimum(kept, classes) * np.uint8(classes + 1)
    return codes


@dataclass(frozen=True)
class Sources:
    """The fastest source for each code.

    rates: bytes per second of one thread that fetches from it. byte_s: the seconds of one thread to
    fetch a byte, prepare it and write it. numbers: the source's number, as in source_names.
    """

    rates: NDArray[np.float64]
    byte_s: NDArray[np.float64]
    numbers: NDArray[np.intp]


def preprocess_byte_s(system: System) -> float:
    """Returns how many seconds one thread takes to prepare a byte and write it to the staging
    buffer."""
    staging = system.staging_buffer
    rate = system.preprocess_bytes_per_s
    return float(formulas.write_s(_ONE_BYTE, rate, staging.write, staging.threads)[0])


def sources_of(system: System, shared_ranks: float) -> Sources:
    """Returns the fastest source for each code, while `shared_ranks` ranks read from shared storage
    at once."""
    classes = len(system.classes)
    own, other = np.divmod(np.arange((classes + 1) ** 2), classes + 1)
    rates, kinds = formulas.fastest_rates(
        np.append(_local_rates(system), 0.0)[own],
        np.append(_remote_rates(system), 0.0)[other],
        system.shared.share_bytes_per_s(shared_ranks),
    )
    number = np.select([kinds == formulas.LOCAL, kinds == formulas.REMOTE], [own, classes + other],
                       2 * classes)  # fmt: skip
    return Sources(rates, 1 / rates + preprocess_byte_s(system), number)


def _local_rates(system: System) -> NDArray[np.float64]:
    fetch_s = [formulas.local_fetch_s(_ONE_BYTE, c.read, c.threads)[0] for c in system.classes]
    return 1 / np.array(fetch_s, dtype=np.float64)


def _remote_rates(system: System) -> NDArray[np.float64]:
    network = system.network_bytes_per_s
    fetch_s = [
        formulas.remote_fetch_s(_ONE_BYTE, network, c.read, c.threads)[0] for c in system.classes
    ]
    return 1 / np.array(fetch_s, dtype=np.float64)


def contended_sources(
    system: System, code_bytes: NDArray[np.float64], other_ranks: float = 0.0
) -> Sources:
    """Returns the fastest source for each code in an epoch. code_bytes: how many bytes all ranks
    read with each code. other_ranks: as how many ranks other readers of shared storage count.

    The number of ranks that read from shared storage at once is unknown: it is the number of ranks
    times the part of their loading time for shared storage, and that part depends on it. It is
    found by bisection. With the result, all ranks together never get more from shared storage than
    its curve allows."""
    low, high = 1.0, float(max(1, system.ranks))
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        if (
            system.ranks * _shared_part(sources_of(system, middle + other_ranks), code_bytes)
            > middle
        ):
            low = middle
        else:
            high = middle
    return sources_of(system, high + other_ranks)


def _shared_part(sources: Sources, code_bytes: NDArray[np.float64]) -> float:
    """Returns which part of all loading time goes to shared storage, the last source."""
    shared_s = (code_bytes / sources.rates)[sources.numbers == sources.numbers[-1]].sum()
    total_s = (code_bytes * sources.byte_s).sum()
    return float(shared_s / total_s) if total_s else 0.0


def thread_shares(work_s: NDArray[np.float64], system: System) -> NDArray[np.float64]:
    """Returns how many times as many threads as without balancing each rank has in each batch
    (ranks x batches), if the ranks of a node divide their threads so that all are done at the same
    time: the solution for which Lobster's Algorithm 1 searches (Liu et al. 2022, section 4.4).

    work_s: the seconds that each rank loads each batch with its own threads. Each rank has one
    thread at least, and the numbers of threads are whole."""
    own = system.staging_buffer.threads
    work = work_s.reshape(system.nodes, system.ranks_per_node, -1) + 1e-12
    extra = (own - 1) * system.ranks_per_node
    shares = work / work.sum(axis=1, keepdims=True) * extra
    counts = np.floor(shares)
    left = extra - counts.sum(axis=1, keepdims=True)
    turn = np.argsort(np.argsort(counts - shares, axis=1), axis=1)
    counts += 1 + (turn < left)
    shares_of_ranks: NDArray[np.float64] = (counts / own).reshape(work_s.shape)
    return shares_of_ranks
