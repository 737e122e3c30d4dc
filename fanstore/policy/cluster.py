"""Simulates the caches of all nodes of a job while it reads (csrc/policy/cluster.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanstore._native import check, ffi, lib
from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.next_use import NEVER

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

POLICIES = ("lru", "random", "minio", "reuse", "belady")
WITH_NEXT_USES = ("reuse", "belady")

NODES_MAX = 65_535  # copies of a sample are counted in 16 bits

# Where a read finds its sample.
NOWHERE, HERE, ELSEWHERE = lib.FAN_FOUND_NOWHERE, lib.FAN_FOUND_HERE, lib.FAN_FOUND_ELSEWHERE


class Cluster:
    """The caches of nodes, each of capacity_bytes and with the same policy.

    The nodes read in step: each rank in turn reads one sample, then each its next one."""

    def __init__(
        self, policy: str, sizes: ArrayLike, capacity_bytes: int, nodes: int, ranks_per_node: int
    ) -> None:
        """sizes: the bytes of each sample. Raises ValueError for an unknown policy and for values
        out of range."""
        if policy not in POLICIES:
            raise ValueError(f"policy is {policy!r}; allowed are {', '.join(POLICIES)}")
        self._policy = policy
        self._sizes = np.ascontiguousarray(checks.sizes("sizes", sizes)).view(np.uint64)
        capacity = checks.integer("capacity_bytes", capacity_bytes, 0, 2**63 - 1)
        smallest_first = np.sort(self._sizes).cumsum()
        self._shape = _shape(
            nodes,
            ranks_per_node,
            len(self._sizes),
            policy=getattr(lib, f"FAN_POLICY_{policy.upper()}"),
            slot_count=int(np.searchsorted(smallest_first, capacity, side="right")),
            sizes=_pointer(self._sizes),
            capacity_bytes=capacity,
        )
        opened = ffi.new("struct fan_cluster **")
        check(lib.fan_cluster_open(self._shape, opened))
        self._cluster = ffi.gc(opened[0], lib.fan_cluster_close)

    @property
    def peak_bytes(self) -> int:
        """The most bytes that one cache held at once."""
        return int(lib.fan_cluster_peak_bytes(self._cluster))

    def read(
        self,
        reads: NDArray[np.integer],
        next_uses: NDArray[np.uint32] | None = None,
        kept: NDArray[np.uint8] | None = None,
    ) -> NDArray[np.uint8]:
        """Reads an epoch. Returns for each read where the sample was just before it: NOWHERE, HERE
        or ELSEWHERE, uint8 (ranks x reads).

        reads: ranks x reads; the number of samples stands for no read. next_uses (reuse, belady):
        from NextUses. kept: a placement (nodes x samples); a node does not cache the samples that
        it keeps. Raises ValueError for arrays that do not match."""
        items = _matrix(reads, self._shape)
        if (next_uses is not None) != (self._policy in WITH_NEXT_USES):
            raise ValueError(f"next_uses go with the policies {', '.join(WITH_NEXT_USES)} alone")
        if next_uses is not None:
            _check_array("next_uses", next_uses, np.uint32, items.shape)
        if kept is not None:
            _check_array("kept", kept, np.uint8, (self._shape.node_count, len(self._sizes)))
        found = np.empty(items.shape, dtype=np.uint8)
        arrays = {"items": items, "next_uses": next_uses, "kept": kept, "found": found}
        pointers = {name: _pointer(array) for name, array in arrays.items()}
        fields = {"columns": items.shape[1], **pointers}
        lib.fan_cluster_read(self._cluster, ffi.new("struct fan_cluster_reads *", fields))
        return found


class NextUses:
    """Finds the next read of each sample by each node. Epochs must be passed last one first."""

    def __init__(self, sample_count: int, nodes: int, ranks_per_node: int, places: int) -> None:
        """places: how many reads a node has in the whole job, including positions without a read.
        Raises ValueError if that needs more than 32 bits."""
        checks.integer("reads of a node", places, 0, NEVER - 1)
        self._place = places
        self._shape = _shape(nodes, ranks_per_node, sample_count)
        self._last = np.full((nodes, sample_count), NEVER, dtype=np.uint32)

    def before(self, reads: NDArray[np.integer]) -> NDArray[np.uint32]:
        """Returns for each read of an epoch (ranks x reads) the position at which the node next
        reads the same sample, in this epoch or in one passed before; NEVER if it does not. A node's
        positions count the reads of its ranks in turn, through all epochs."""
        items = _matrix(reads, self._shape)
        self._place -= items.shape[1] * int(self._shape.ranks_per_node)
        found = np.full(items.shape, NEVER, dtype=np.uint32)
        lib.fan_next_uses(
            self._shape, items.shape[1], _pointer(items), self._place, _pointer(self._last),
            _pointer(found),
        )  # fmt: skip
        return found


def _shape(nodes: int, ranks_per_node: int, sample_count: int, **others: Any) -> Any:
    fields = {
        "node_count": checks.integer("nodes", nodes, 1, NODES_MAX),
        "ranks_per_node": checks.integer("ranks_per_node", ranks_per_node, 1),
        "item_count": checks.sample_count(sample_count),
        **others,
    }
    return ffi.new("struct fan_cluster_shape *", fields)


def _matrix(reads: NDArray[np.integer], shape: Any) -> NDArray[np.int64]:
    """Returns the reads as int64, ranks x columns. Raises ValueError for another shape."""
    array, samples = np.asarray(reads), shape.item_count
    ranks = shape.node_count * shape.ranks_per_node
    if array.ndim != 2 or len(array) != ranks or array.dtype.kind not in "iu":
        raise ValueError(
            f"reads are {array.dtype}{array.shape}; allowed are integers, {ranks} rows"
        )
    if array.size and (array.min() < 0 or array.max() > samples):
        raise ValueError(f"reads have samples {array.min()} to {array.max()} of {samples}")
    items: NDArray[np.int64] = np.ascontiguousarray(array, dtype=np.int64)
    return items


def _check_array(name: str, array: NDArray[Any], dtype: Any, shape: tuple[int, ...]) -> None:
    if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
        raise ValueError(
            f"{name} are {array.dtype}{array.shape}; allowed is {np.dtype(dtype)}{shape}"
        )


def _pointer(array: NDArray[Any] | None) -> Any:
    return ffi.NULL if array is None else ffi.from_buffer(f"{array.dtype}_t[]", array)
