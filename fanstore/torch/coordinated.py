"""A data loader whose batches the jobs of a node prepare together (docs/coordinate.md)."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.data import DistributedSampler, default_collate

from fanstore.coordinate import join
from fanstore.errors import UsageError
from fanstore.torch.samplers.base import is_distributed


class CoordinatedDataLoader:
    """Yields the batches of one epoch each time that it is iterated, as torch's DataLoader does.

    dataset: with a length and integer keys. seed: of the order and of the transforms' generators;
    all jobs give the same, and the same batch_size. Before a batch is prepared `random`, NumPy and
    torch are seeded from (seed, epoch, batch), so that a batch is the same whoever prepares it.
    num_workers: processes that prepare, at least 1. batch_bytes: the most that a batch takes; if
    None, each job prepares the first batch once to find out. fingerprint: text that stands for
    dataset and transform, if their repr does not tell them apart. rank, world_size: of this process
    in its job, by default torch.distributed's; each gets the samples that DistributedSampler gives
    it, and shares batches with the processes of its rank in the other jobs. name, options: see
    fanstore.coordinate.join. Raises UsageError, and the errors of join. A context manager.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        *,
        jobs: int,
        seed: int,
        shuffle: bool = True,
        drop_last: bool = False,
        num_workers: int = 1,
        collate_fn: Callable[[list[Any]], Any] = default_collate,
        batch_bytes: int | None = None,
        fingerprint: str = "",
        rank: int | None = None,
        world_size: int | None = None,
        name: str = "default",
        **options: Any,
    ) -> None:
        if batch_size < 1 or num_workers < 1:
            raise UsageError("batch_size and num_workers: allowed is 1 or more")
        self.dataset, self.batch_size, self.seed = dataset, batch_size, seed
        self._collate = collate_fn
        is_part = world_size is None and is_distributed()
        self._rank = (torch.distributed.get_rank() if is_part else 0) if rank is None else rank
        self._world_size = torch.distributed.get_world_size() if is_part else world_size or 1
        self._sampler = DistributedSampler(
            dataset, self._world_size, self._rank, shuffle=shuffle, seed=seed
        )
        count = len(self._sampler) / batch_size
        self._batches = math.floor(count) if drop_last else math.ceil(count)
        if self._batches < 1:
            raise UsageError(f"the dataset has {len(dataset)} samples, too few for one batch")
        # Prepares one batch to learn its containers, because the staging area stores only arrays.
        first = self._batch(0, 0) if batch_bytes is None else self._collate([dataset[0]])
        leaves, self._shape = tree_flatten(first)
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise UsageError("a batch has parts that are no tensors; collate_fn must make them so")
        if batch_bytes is None:
            batch_bytes = sum(-(-leaf.nbytes // 64) * 64 for leaf in leaves)
        self._member = join(
            self._prepare, jobs=jobs, batches=self._batches, batch_bytes=batch_bytes,
            workers=num_workers, fingerprint=self._fingerprint(drop_last, fingerprint),
            name=name if self._world_size == 1 else f"{name}, rank {self._rank}", **options,
        )  # fmt: skip

    def __len__(self) -> int:
        """Returns the number of batches of an epoch."""
        return self._batches

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches of the next epoch, which begins when all jobs have asked for it."""
        for _, _, arrays in self._member.epoch():
            yield tree_unflatten([torch.from_numpy(array) for array in arrays], self._shape)

    def close(self) -> None:
        """Leaves the coordination; the other jobs continue."""
        self._member.close()

    def __enter__(self) -> CoordinatedDataLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _prepare(self, epoch: int, batch: int) -> list[Any]:
        torch.set_num_threads(1)  # as torch's own loader does in workers
        return [leaf.numpy() for leaf in tree_flatten(self._batch(epoch, batch))[0]]

    def _batch(self, epoch: int, batch: int) -> Any:
        states = random.getstate(), np.random.get_state(), torch.get_rng_state()
        try:
            place = batch * self._world_size + self._rank
            own = int.from_bytes(_digest(self.seed, epoch, place)[:4], "little")
            random.seed(own)
            np.random.seed(own)
            torch.manual_seed(own)
            first = batch * self.batch_size
            indices = self._order(epoch)[first : first + self.batch_size]
            return self._collate([self.dataset[index] for index in indices])
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])
            torch.set_rng_state(states[2])

    def _order(self, epoch: int) -> list[int]:
        """Returns this rank's part of the order of an epoch."""
        self._sampler.set_epoch(epoch)
        return list(self._sampler)

    def _fingerprint(self, drop_last: bool, text: str) -> dict[str, object]:
        """Returns the values that must be the same in all jobs. The type stands for an object whose
        repr contains an address, since addresses differ."""
        kind = type(self.dataset)
        transform = getattr(self.dataset, "transform", None)
        told = repr(transform)
        return {
            "batch_size": self.batch_size, "seed": self.seed, "shuffle": self._sampler.shuffle,
            "world_size": self._world_size, "drop_last": drop_last,
            "samples": len(self.dataset), "own fingerprint": text,
            "dataset": f"{kind.__module__}.{kind.__qualname__}",
            "transform": type(transform).__qualname__ if " at 0x" in told else told,
        }  # fmt: skip


def _digest(*numbers: int) -> bytes:
    return hashlib.sha256(repr(numbers).encode()).digest()
