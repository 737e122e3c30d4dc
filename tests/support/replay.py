"""What the cache of one node finds of a sequence of reads, under each policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fanstore.policy.cluster import HERE, Cluster

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def replay(
    policy: str,
    reads: ArrayLike,
    sizes: ArrayLike,
    capacity_bytes: int,
    next_uses: NDArray[np.uint32] | None = None,
) -> NDArray[np.bool_]:
    """Returns for each read whether the cache has the sample. sizes: the bytes of each sample, or
    one number for all."""
    samples = np.asarray(reads, dtype=np.int64)
    each: Any = np.asarray(sizes)
    if not each.ndim:
        each = np.full(int(samples.max(initial=0)) + 1, each)
    coming = None if next_uses is None else np.ascontiguousarray(next_uses)[None]
    found = Cluster(policy, each, capacity_bytes, 1, 1).read(samples[None], coming)
    hits: NDArray[np.bool_] = found[0] == HERE
    return hits
