"""DeepIO's opportunistic order as a sampler."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sized

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.opportunistic import Opportunistic
from fanstore.staging.memory import left_bytes
from fanstore.torch.samplers.base import EpochSampler
from fanstore.torch.samplers.filling import Filling
from fanstore.torch.stretch_memory import StretchMemory
from fanstore.wording import show_bytes


class OpportunisticSampler(EpochSampler):
    """Reads in DeepIO's opportunistic order: only what lies in memory, which is refilled by large
    reads of neighbouring samples; a stand-in for DistributedSampler on training data.

    Each sample is read once an epoch by one rank (but for the padding of DistributedSampler: where
    the ranks do not divide the dataset, the first samples are read again, or with drop_last the
    last ones are left out). All ranks work the order out from the seed and send nothing to each
    other.

    dataset: has a length; neighbours in it should be neighbours in the packs, as with sorted paths.
    num_replicas, rank: by default those of the process group, or of a process that is alone.
    memory_share: the part of all samples that the memories of all nodes hold together, above 0 to 1
    (of the block caches of a FanStore job: --cache-bytes times nodes, by the dataset's size).
    read_samples: how many neighbours are read at once. level_min: the randomisation level (0 to 1)
    that is asked for. memory: brings each stretch to memory by large reads, before the first draw
    from it, and the one behind it; for one rank alone. seed: as of DistributedSampler; None: rank
    0 draws one and broadcasts it.

    Raises ValueError for arguments out of range, and where the level would be below level_min: the
    message has the level and what memory_share gives more. Raises RuntimeError where several ranks
    are to agree on a seed, or on who they are, without a process group.
    Source: Zhu et al., Entropy-aware I/O pipelining (MASCOTS 2018), section 3.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        *,
        memory_share: float,
        read_samples: int = 64,
        level_min: float = 0.8,
        memory: StretchMemory | None = None,
        seed: int | None = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, num_replicas, rank, seed, drop_last)
        self._share = checks.fraction("memory_share", memory_share)
        self._reads = checks.integer("read_samples", read_samples, 1, len(dataset))
        self.level_min = checks.fraction("level_min", level_min)
        if memory is not None:
            self._check(memory)
        self._memory = memory
        self._filling: Filling | None = None
        self._orders = self._orders_at(self._share)
        self.level = self._level(self._orders)
        if self.level < self.level_min:
            raise ValueError(self._too_low())
        if self.rank == 0:
            print(self._said(), file=sys.stderr)

    def __iter__(self) -> Iterator[int]:
        """Iterates over the samples of this rank; `level` is that of this epoch from now on. With
        `memory` the iterator raises what reading raised: DatasetDamaged, OSError, and TimeoutError
        where a stretch takes more than 300 s."""
        order = self._orders.samples(self.epoch)
        self.level = self._orders.level(self.epoch, order)
        mine: list[int] = self.whole(order)[self.rank :: self.num_replicas].tolist()
        return iter(mine) if self._memory is None else self._through(self._memory, mine)

    def _through(self, memory: StretchMemory, samples: list[int]) -> Iterator[int]:
        """Yields samples, each when its stretch is in memory."""
        if self._filling is not None:
            self._filling.end()  # of an epoch that was broken off
        memory.clear()
        filling = self._filling = Filling(memory.read, self.stretches(self.epoch))
        due = self._orders.due(self.epoch)
        drawn = 0
        try:
            while drawn < len(samples):
                come = int(np.searchsorted(due, drawn, "right"))
                filling.wait_for(come)
                upto = int(due[come]) if come < len(due) else len(samples)
                yield from samples[drawn:upto]
                drawn = upto
        finally:
            filling.end()

    def stretches(self, epoch: int) -> list[range]:
        """Returns what comes to memory in an epoch, in this order: ranges of neighbouring samples.
        Raises ValueError."""
        return [self._orders.members(stretch) for stretch in self._orders.arrivals(epoch).tolist()]

    def _check(self, memory: StretchMemory) -> None:
        count = len(self.dataset)
        if self.num_replicas > 1 or len(memory) != count:
            raise ValueError(
                f"memory has {len(memory)} samples, and there are {self.num_replicas} ranks; "
                f"allowed are the {count} of the dataset, and one rank, as each reads it all"
            )
        needed = memory.room_bytes(min(count, int(self._share * count) + self._reads))
        if needed > (left := left_bytes()):
            raise ValueError(
                f"memory_share {self._share} of the samples takes {show_bytes(needed)}; "
                f"{show_bytes(left)} of memory are left"
            )

    def _orders_at(self, share: float) -> Opportunistic:
        count = len(self.dataset)
        held = int(share * count)
        if held < min(2 * self._reads, count):
            raise ValueError(
                f"memory_share is {share}: {held} of {count} samples; allowed are two reads of "
                f"{self._reads} (read_samples) or more"
            )
        return Opportunistic(count, held=held, together=self._reads, seed=self.seed)

    def _level(self, orders: Opportunistic) -> float:
        return orders.level(0, orders.samples(0))

    def _too_low(self) -> str:
        said = (
            f"the randomisation level would be {self.level:.1%} with memory_share {self._share}; "
            f"level_min is {self.level_min:.1%}"
        )
        share = self._share
        while share < 1:
            share = min(1.0, share + 0.05)
            reached = self._level(self._orders_at(share))
            if reached >= self.level_min:
                return f"{said}, and memory_share {share:.2f} gives {reached:.1%}"
        return f"{said}, which is out of reach"

    def _said(self) -> str:
        return (
            f"fanstore: opportunistic order of {len(self.dataset)} samples: randomisation level "
            f"{self.level:.1%} (at least {self.level_min:.1%} is asked for), "
            f"{self._orders.stretch_count} reads of {self._reads} samples an epoch"
        )
