"""Yang and Cong's locality-aware loading as a sampler, and a function that returns which node of a
job keeps each sample."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.dataset import open_dataset
from fanstore.policy import checks
from fanstore.policy.orders.torch_samplers import randperm
from fanstore.policy.placement.rules import local_reads
from fanstore.staging.placement import Packs, place
from fanstore.torch.samplers.base import EpochSampler

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def staged_keepers(
    path: str | os.PathLike[str],
    names: Sequence[str | bytes | os.PathLike[str]],
    nodes: int,
) -> NDArray[np.int64]:
    """Returns for each sample the node that keeps it in a job that stages all packs, each on one
    node (--stage full, --replicas 1): int64 (samples), -1 for a sample that every node keeps.

    path: the dataset's directory. names: the relative path of each sample's file. nodes: ranks of
    FanStore (FANSTORE_WORLD_SIZE), 1 or more. Raises FanstoreError if there is no dataset,
    DatasetDamaged, FileNotFoundError for a name that is not in it, and ValueError.
    """
    nodes = checks.integer("nodes", nodes, 1)
    with open_dataset(path) as dataset:
        infos = [dataset.pack_info(pack) for pack in range(dataset.pack_count)]
        packs = Packs(
            tuple(info.file_bytes for info in infos), tuple(info.everywhere for info in infos)
        )
        ranks = place(packs, nodes, 1)
        owners = [of[0] if len(of) == 1 else -1 for of in ranks]
        ids = [dataset.lookup(os.fsencode(name)) for name in names]
        return np.array([owners[dataset.record(each).pack] for each in ids], np.int64)


class LocalitySampler(EpochSampler):
    """Reads the batches of DistributedSampler, but each rank reads the samples that it keeps.

    A step of all ranks has the same samples as with DistributedSampler of the same seed and epoch,
    so the ranks together learn the same, up to the order of summation; only which rank reads which
    sample changes. If a rank keeps more samples of a step than its batch has, ranks that keep fewer
    read the rest. If the last step is not whole, it stays as it is.

    batch_size: samples of one rank in a step, as the DataLoader has it. keepers: for each sample
    the number of the node that keeps it, from 0, or -1 for none; by default the node that reads it
    in epoch 0 (first touch: with shuffling and without set_epoch). ranks_per_node: how many
    neighbouring ranks form one node and share what it keeps. Other arguments are those of
    DistributedSampler; seed None: rank 0 draws one and broadcasts it.

    Raises ValueError for arguments out of range, or if keepers has another length than the dataset.
    Source: Yang and Cong, Accelerating Data Loading in Deep Neural Network Training (HiPC 2019).
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        *,
        batch_size: int,
        keepers: ArrayLike | None = None,
        ranks_per_node: int = 1,
        seed: int | None = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, num_replicas, rank, seed, drop_last)
        self.batch_size = checks.integer("batch_size", batch_size, 1)
        self._per_node = checks.integer("ranks_per_node", ranks_per_node, 1, self.num_replicas)
        if self.num_replicas % self._per_node:
            raise ValueError(
                f"ranks_per_node is {ranks_per_node}; allowed are divisors of {self.num_replicas}"
            )
        self._keepers = self._first_touch() if keepers is None else checks.integers(keepers)
        if self._keepers.shape != (len(self.dataset),):
            raise ValueError(
                f"keepers have the shape {self._keepers.shape}; allowed is ({len(self.dataset)},)"
            )
        self._dealt(np.empty(0, np.uint32))  # raises an error if a keeper is no node

    def __iter__(self) -> Iterator[int]:
        """Iterates over the samples of this rank, one batch after the other."""
        order = self._epoch(self.epoch)
        step = self.num_replicas * self.batch_size
        whole = len(order) // step * step
        dealt = self._dealt(order[:whole])[self.rank]
        tail = order[whole:][self.rank :: self.num_replicas]
        mine: list[int] = np.concatenate((dealt, tail)).tolist()
        return iter(mine)

    def local_share(self) -> float:
        """Returns which part (0 to 1) of the epoch's reads on all ranks find the sample on the
        reader's node."""
        order = self._epoch(self.epoch)
        step = self.num_replicas * self.batch_size
        whole = len(order) // step * step
        dealt, tail = self._dealt(order[:whole]), order[whole:].reshape(-1, self.num_replicas).T
        nodes = np.arange(self.num_replicas)[:, None] // self._per_node
        found = sum(int((self._keepers[part] == nodes).sum()) for part in (dealt, tail))
        return found / len(order)

    def _epoch(self, epoch: int) -> NDArray[np.uint32]:
        return self.whole(randperm(len(self.dataset), self.seed + epoch))

    def _first_touch(self) -> NDArray[Any]:
        order = self._epoch(0)
        keepers = np.full(len(self.dataset), -1)
        nodes = np.arange(len(order)) % self.num_replicas // self._per_node
        keepers[order[::-1]] = nodes[::-1]  # if two nodes read a sample, keep the first reader
        return keepers

    def _dealt(self, steps: NDArray[np.uint32]) -> NDArray[Any]:
        """Returns the samples that each rank reads in whole steps (ranks x reads). Samples that a
        node keeps come first in a step, and the ranks of the node take them in turn."""
        nodes = self.num_replicas // self._per_node
        of_node = local_reads(steps, self._keepers, nodes, self._per_node * self.batch_size)
        turns = of_node.reshape(nodes, -1, self.batch_size, self._per_node)
        by_rank: NDArray[Any] = turns.transpose(0, 3, 1, 2).reshape(self.num_replicas, -1)
        return by_rank
