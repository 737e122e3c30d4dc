"""The policies that are compared: which files each node keeps in which storage class, and which
files it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy.placement.by_frequency import by_frequency, by_frequency_partitioned
from fanstore.policy.placement.rules import NOBODY, NOWHERE, first_touch, local_reads, partition
from fanstore.study.simulate.caches import Caches, NodeCaches, OpportunisticCaches
from fanstore.study.simulate.workload import Workload
from fanstore.wording import show_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Changes the order of reads: gets the number of an epoch and the job's reads, and returns other
# reads. Both are matrices from epochs.padded (ranks x reads), in which the number of files stands
# for the empty sample that fills up the last batches.
Reordering = Callable[[int, "NDArray[np.intp]"], "NDArray[np.intp]"]


def shards(kept: NDArray[np.bool_], ranks_per_node: int) -> Reordering:
    """Returns a Reordering in which each node reads only its own files, in a new random order in
    each epoch.

    A node's files are divided among its ranks. A rank reads as many files as in the job's order,
    and begins again with the first if it has fewer. kept: whether a node has a file (nodes x
    files), at least one file for each node."""
    own = [np.flatnonzero(row) for row in kept]
    nothing = kept.shape[1]

    def reads_of(epoch: int, reads: NDArray[np.intp]) -> NDArray[np.intp]:
        changed: NDArray[np.intp] = reads.copy()
        for node, files in enumerate(own):
            order = np.random.default_rng((epoch, node)).permutation(files)
            for local in range(ranks_per_node):
                row = changed[node * ranks_per_node + local]
                read = row != nothing
                mine = order[local::ranks_per_node]
                row[read] = np.resize(mine if len(mine) else order, int(read.sum()))
        return changed

    return reads_of


def by_keeper(placement: NDArray[np.uint8], ranks_per_node: int, batch_size: int) -> Reordering:
    """Returns a Reordering in which, from the second epoch on, nodes read the samples of each step
    that they keep; each rank reads as many as before (Yang and Cong 2019).

    placement: the storage class of each file on each node (nodes x files). If the last step is not
    whole, it stays as it is.
    """
    kept = placement.min(axis=0) != NOWHERE
    keepers = np.where(kept, placement.argmin(axis=0), NOBODY)
    nodes, nothing = placement.shape
    of_node = ranks_per_node * batch_size

    def reads_of(epoch: int, reads: NDArray[np.intp]) -> NDArray[np.intp]:
        ranks = len(reads)
        batches = reads.reshape(ranks, -1, batch_size)
        whole = int((batches != nothing).all(axis=(0, 2)).sum())
        if epoch == 0 or whole == 0:
            return reads
        steps = batches[:, :whole].swapaxes(0, 1).reshape(-1)
        dealt = local_reads(steps, keepers, nodes, of_node)
        # The ranks of a node take turns, because the samples that the node keeps come before the
        # others.
        by_rank = dealt.reshape(nodes, whole, batch_size, ranks_per_node).transpose(0, 3, 1, 2)
        changed = batches.copy()
        changed[:, :whole] = by_rank.reshape(ranks, whole, batch_size)
        reordered: NDArray[np.intp] = changed.reshape(reads.shape)
        return reordered

    return reads_of


AT_ONCE, IN_TURN, ON_DEMAND, AHEAD = "at once", "in turn", "on demand", "ahead"


class CannotRun(Exception):
    """A policy cannot run a scenario. The message is the reason."""


@dataclass(frozen=True)
class PolicyPlan:
    """The actions of a policy in a scenario.

    loading: AT_ONCE takes no time, IN_TURN is neither ahead of computing nor at the same time,
    AHEAD fills the staging buffer, ON_DEMAND does so with what a node keeps, and a rank fetches the
    rest when it wants it. placement: the class of each file on each node; None: nothing is kept.
    Files are kept once the first epoch has read them, or are loaded before it (preloaded), or by
    threads of their class while the job runs (fills).
    loaders: so many of a rank's threads fetch and the others prepare; 0: each does both. balanced:
    the threads of a node are divided among its ranks by their work in each batch.
    caches: keep other files, depending on the reads. reordering: returns reads in place of the
    job's order. covered: which part of the dataset's bytes is read at all."""

    loading: str = AHEAD
    placement: NDArray[np.uint8] | None = None
    preloaded: bool = False
    fills: bool = False
    caches: Caches | None = None
    reordering: Reordering | None = None
    covered: float = 1.0
    loaders: int = 0
    balanced: bool = False


@dataclass(frozen=True)
class Policy:
    """A policy by name. `plan` raises CannotRun with a reason."""

    about: str
    plan: Callable[[Workload], PolicyPlan]


def _perfect(_: Workload) -> PolicyPlan:
    return PolicyPlan(AT_ONCE)


def _naive(_: Workload) -> PolicyPlan:
    return PolicyPlan(IN_TURN)


def _staging_buffer(_: Workload) -> PolicyPlan:
    return PolicyPlan()


def _need_room(rooms: NDArray[np.int64], what: str) -> NDArray[np.int64]:
    if not rooms.sum():
        raise CannotRun(f"the scenario has no {what}")
    return rooms


def _deepio_ordered(workload: Workload) -> PolicyPlan:
    rooms = _need_room(workload.memory_bytes, "memory (first storage class)")
    placement = partition(workload.sizes_bytes, np.arange(len(workload.sizes_bytes)), rooms)
    return PolicyPlan(ON_DEMAND, placement)


def _deepio_opportunistic(workload: Workload) -> PolicyPlan:
    _need_room(workload.memory_bytes, "memory (first storage class)")
    memories = OpportunisticCaches(workload)
    return PolicyPlan(caches=memories, reordering=memories.reads_of)


def _coordl(workload: Workload) -> PolicyPlan:
    rooms = _need_room(workload.memory_bytes, "memory (first storage class)")
    return PolicyPlan(placement=partition(workload.sizes_bytes, workload.first_order, rooms))


def _close(workload: Workload) -> PolicyPlan:
    rooms = _need_room(workload.capacities_bytes, "storage class")
    _need_to_hold(workload, rooms, "storage classes of all nodes")
    placement = partition(workload.sizes_bytes, np.arange(len(workload.sizes_bytes)), rooms)
    return PolicyPlan(placement=_all_kept(placement, "storage classes"), preloaded=True)


def _shares(workload: Workload, in_memory: bool) -> NDArray[np.uint8] | None:
    """Returns a share of the files on each node's disks (all classes but the first); in_memory: the
    nodes' memories divide what is on no disk. None: there is no room."""
    order = [*range(1, len(workload.system.classes)), 0]
    rooms = workload.capacities_bytes[:, order]
    if not in_memory:
        rooms[:, -1] = 0
    if not rooms.sum():
        return None
    numbers = np.full(NOWHERE + 1, NOWHERE, dtype=np.uint8)
    numbers[: len(order)] = order
    shares: NDArray[np.uint8] = numbers[
        partition(workload.sizes_bytes, np.arange(len(workload.sizes_bytes)), rooms)
    ]
    return shares


def _cached(
    policy: str,
    in_memory: bool = False,
    together: bool = False,
    loaders: int = 0,
    balanced: bool = False,
) -> Callable[[Workload], PolicyPlan]:
    """Returns a function that makes a plan as `fanstore run --stage plan --cache-policy POLICY`
    does: a share of the files on each node's disks, and a cache in memory. in_memory: memory holds
    a share of the rest first, and the cache takes what is left of it. together: nodes read from
    each other's caches. loaders, balanced: of PolicyPlan."""

    def plan(workload: Workload) -> PolicyPlan:
        threads = workload.system.staging_buffer.threads
        if threads <= loaders:
            raise CannotRun(f"a rank has {threads} threads; it needs more than {loaders}")
        memory = _need_room(workload.memory_bytes, "memory (first storage class)")
        placement = _shares(workload, in_memory)
        left = memory[:, 0]
        if placement is not None:
            left -= np.array([workload.sizes_bytes[row == 0].sum() for row in placement])
        try:
            caches = NodeCaches(workload, policy, placement, int(left.min()), together)
        except ValueError as error:
            raise CannotRun(str(error)) from None
        fills = len(workload.system.classes) > 1
        return PolicyPlan(
            placement=placement, fills=fills, caches=caches, loaders=loaders, balanced=balanced
        )

    return plan


def _parallel_staging(workload: Workload) -> PolicyPlan:
    rooms = _need_room(workload.capacities_bytes, "storage class")
    files = np.arange(len(workload.sizes_bytes))
    placement = partition(workload.sizes_bytes, files, rooms)
    kept = placement != NOWHERE
    if not kept.any(axis=1).all():
        raise CannotRun("there is not a file for each node in its storage classes")
    covered = int(workload.sizes_bytes[kept.any(axis=0)].sum()) / max(1, workload.dataset_bytes)
    reordering = shards(kept, workload.system.ranks_per_node)
    return PolicyPlan(placement=placement, preloaded=True, reordering=reordering, covered=covered)


def _need_to_hold(workload: Workload, rooms: NDArray[np.int64], what: str) -> None:
    if workload.dataset_bytes > rooms.sum():
        raise CannotRun(
            f"the dataset ({show_bytes(workload.dataset_bytes)}) exceeds the {what} "
            f"({show_bytes(int(rooms.sum()))})"
        )


def _need_memory(workload: Workload) -> NDArray[np.int64]:
    rooms = _need_room(workload.memory_bytes, "memory (first storage class)")
    _need_to_hold(workload, rooms, "memory of all nodes")
    return rooms


def _lbann_dynamic(workload: Workload) -> PolicyPlan:
    rooms = _need_memory(workload)
    return PolicyPlan(
        placement=_all_kept(first_touch(workload.sizes_bytes, workload.first_reads, rooms))
    )


def _lbann_preload(workload: Workload) -> PolicyPlan:
    rooms = _need_memory(workload)
    placement = partition(workload.sizes_bytes, np.arange(len(workload.sizes_bytes)), rooms)
    return PolicyPlan(placement=_all_kept(placement), preloaded=True)


def _all_kept(placement: NDArray[np.uint8], what: str = "memory") -> NDArray[np.uint8]:
    left = int((placement == NOWHERE).all(axis=0).sum())
    if left:
        raise CannotRun(
            f"{left:,} files do not fit into the {what} of the node that should keep them"
        )
    return placement


def _locality_aware(workload: Workload) -> PolicyPlan:
    rooms = _need_room(workload.capacities_bytes, "storage class")
    placement = first_touch(workload.sizes_bytes, workload.first_reads, rooms)
    scenario = workload.scenario
    reordering = by_keeper(placement, workload.system.ranks_per_node, scenario.job.batch_size)
    return PolicyPlan(placement=placement, reordering=reordering)


def _nopfs(workload: Workload) -> PolicyPlan:
    if not workload.capacities_bytes.sum():
        return PolicyPlan()
    rooms = workload.capacities_bytes
    placement = by_frequency(workload.sizes_bytes, workload.frequencies, rooms)
    return PolicyPlan(placement=placement, fills=True)


def _frequency_partition(workload: Workload) -> PolicyPlan:
    if not workload.capacities_bytes.sum():
        return PolicyPlan()
    rooms = workload.capacities_bytes
    placement = by_frequency_partitioned(workload.sizes_bytes, workload.frequencies, rooms)
    return PolicyPlan(placement=placement, fills=True)


POLICIES = {
    "perfect": Policy("nobody waits for a sample", _perfect),
    "naive": Policy("keeps nothing; loading, preparing and computing alternate", _naive),
    "staging-buffer": Policy("keeps nothing; loads ahead from shared storage", _staging_buffer),
    "deepio-ordered": Policy(
        "the memory of each node keeps a stretch of the list of files", _deepio_ordered
    ),
    "deepio-opportunistic": Policy(
        "reads files that are in any node's memory, and refills it meanwhile", _deepio_opportunistic
    ),
    "parallel-staging": Policy(
        "each node loads a part before the job, and reads nothing else", _parallel_staging
    ),
    "lbann-dynamic": Policy("the first reader of a file keeps it in memory", _lbann_dynamic),
    "lbann-preload": Policy("all files are loaded into memory before the job", _lbann_preload),
    "locality-aware": Policy(
        "the first reader of a file keeps it; batches go to the nodes that keep their samples",
        _locality_aware,
    ),
    "coordl": Policy("the memory of each node keeps a part of the first epoch", _coordl),
    "nopfs": Policy("each node keeps its most frequent files, in its fastest class", _nopfs),
    "frequency-partition": Policy(
        "as nopfs, but no file twice before every file is kept once", _frequency_partition
    ),
    "close": Policy("FanStore's paper: all files on the nodes, nothing else is kept", _close),
    "lru": Policy("disks, and a cache in memory: what was read longest ago goes", _cached("lru")),
    "random": Policy("disks, and a cache in memory: anything goes", _cached("random")),
    "minio": Policy("disks and memory: what came first stays", _cached("minio", in_memory=True)),
    "belady": Policy(
        "FanStore's default: disks and memory; what is read again last goes",
        _cached("belady", in_memory=True),
    ),
    "reuse": Policy(
        "Lobster's: as belady, all comes in, and nodes share their caches",
        _cached("reuse", together=True),
    ),
    "lobster": Policy(
        "as reuse, and the ranks of a node divide their threads by their work",
        _cached("reuse", together=True, balanced=True),
    ),
    "dali": Policy(
        "as random; three threads of a rank fetch, and the others prepare",
        _cached("random", loaders=3),
    ),
}
