"""Policies that change the order of reads. Each returns a function that takes the number of an
epoch and the job's reads, and returns what is read instead.

Reads are matrices from epochs.padded (ranks x reads). In them the number of files stands for the
empty sample, which fills up the last batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy.placement.rules import NOBODY, NOWHERE, local_reads

if TYPE_CHECKING:
    from numpy.typing import NDArray

Reordering = Callable[[int, "NDArray[np.intp]"], "NDArray[np.intp]"]  # epoch, reads


def shards(kept: NDArray[np.bool_], ranks_per_node: int) -> Reordering:
    """Each node reads no other files than its own, in a new random order each epoch.

    A node's files are divided among its ranks. A rank reads as many as it does in the job's order,
    and begins again with the first where it has fewer. kept: whether a node has a file (nodes x
    files), one file at least for each node.
    """
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
    """From the second epoch on, the samples of each step are given to the nodes that keep them;
    each rank reads as many as before (Yang and Cong 2019).

    placement: the storage class of each file on each node (nodes x files). A last step that is not
    whole stays as it is.
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
        # Ranks of a node by turns, for what it keeps stands before what it does not.
        by_rank = dealt.reshape(nodes, whole, batch_size, ranks_per_node).transpose(0, 3, 1, 2)
        changed = batches.copy()
        changed[:, :whole] = by_rank.reshape(ranks, whole, batch_size)
        reordered: NDArray[np.intp] = changed.reshape(reads.shape)
        return reordered

    return reads_of
