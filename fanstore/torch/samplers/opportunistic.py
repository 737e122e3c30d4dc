"""DeepIO's opportunistic order as a sampler. A thread reads each stretch into memory before its
samples are drawn."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence, Sized

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders.opportunistic import OpportunisticOrder
from fanstore.staging.memory import left_bytes
from fanstore.torch.samplers.base import EpochSampler
from fanstore.torch.stretch_memory import StretchMemory
from fanstore.wording import show_bytes

_DEADLINE_S = 300.0


class StretchReader:
    """Calls `read` with each stretch in order, in a thread, and stays one stretch ahead of
    `wait_for`."""

    def __init__(self, read: Callable[[range], None], stretches: Sequence[range]) -> None:
        self._read, self._stretches = read, stretches
        self._changed = threading.Condition()
        self._wanted = self._done = 0
        self._ending = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="fanstore-stretches", daemon=True)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Waits until the first `count` stretches are in memory. Raises the error of `read`,
        TimeoutError if a stretch takes more than 300 s, and RuntimeError after `end`."""
        with self._changed:
            self._wanted = max(self._wanted, count)
            self._changed.notify_all()
            while self._done < count and self._error is None:
                if self._ending:
                    raise RuntimeError("a later iteration of the sampler has taken its memory")
                if not self._changed.wait(_DEADLINE_S):
                    stretch = self._stretches[self._done]
                    raise TimeoutError(
                        f"samples {stretch.start} to {stretch.stop - 1} did not come to memory "
                        f"within {_DEADLINE_S:.0f} s"
                    )
            if self._done < count and self._error is not None:
                raise self._error

    def end(self) -> None:
        """Ends the thread after its current stretch."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(_DEADLINE_S)

    def _run(self) -> None:
        for number, stretch in enumerate(self._stretches):
            with self._changed:
                while number > self._wanted and not self._ending:
                    self._changed.wait()
                if self._ending:
                    return
            try:
                self._read(stretch)
            except Exception as error:  # raised by wait_for
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._done = number + 1
                self._changed.notify_all()


class OpportunisticSampler(EpochSampler):
    """Reads in DeepIO's opportunistic order: only samples that lie in memory, which large reads of
    neighbouring samples refill; a stand-in for DistributedSampler on training data.

    Each sample is read once an epoch by one rank (but for the padding of DistributedSampler: if the
    ranks do not divide the dataset, the first samples are read again, or with drop_last the last
    ones are left out). All ranks compute the order from the seed and send nothing to each other.

    dataset: has a length; neighbours in it should be neighbours in the packs, as with sorted paths.
    num_replicas, rank: by default those of the process group, or of a process that is alone.
    memory_share: the part of all samples that the memories of all nodes hold together, above 0 to 1
    (of the block caches of a FanStore job: --cache-bytes times nodes, by the dataset's size).
    read_samples: how many neighbours are read at once. level_min: the lowest randomisation level (0
    to 1) that is allowed. memory: brings each stretch to memory by large reads before the first
    draw from it, and the next stretch as well. Each rank has one of its own, and draws from that
    alone; without, all ranks draw from one memory. seed: as of DistributedSampler; None: rank 0
    draws one and broadcasts it.

    Raises ValueError for arguments out of range, and if the level would be below level_min: the
    message names the level, and a memory_share that is enough, if any is. Raises RuntimeError if
    several ranks need a process group, to agree on a seed or to number themselves, and there is
    none. Source: Zhu et al., Entropy-aware I/O pipelining (MASCOTS 2018), section 3.
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
        self._filling: StretchReader | None = None
        self._memories = 1 if memory is None else self.num_replicas
        self._orders = self._orders_at(self._share)
        self.level = self._level(self._orders)
        if self.level < self.level_min:
            raise ValueError(self._too_low())
        if self.rank == 0:
            print(self._said(), file=sys.stderr)

    def __iter__(self) -> Iterator[int]:
        """Iterates over the samples of this rank, and sets `level` to the level of this epoch. With
        `memory`, the iterator raises the errors of reading: DatasetDamaged, OSError, and
        TimeoutError if a stretch takes more than 300 s."""
        order = self._orders.samples(self.epoch)
        self.level = self._orders.level(self.epoch, order)
        mine: list[int] = self.whole(order)[self.rank :: self.num_replicas].tolist()
        return iter(mine) if self._memory is None else self._through(self._memory, mine)

    def _through(self, memory: StretchMemory, samples: list[int]) -> Iterator[int]:
        """Yields samples, each as soon as its stretch is in memory."""
        if self._filling is not None:
            self._filling.end()  # the reader of an epoch that was not read to its end
        memory.clear()
        filling = self._filling = StretchReader(memory.read, self.stretches(self.epoch))
        due = self._orders.due(self.epoch, self.rank % self._memories)
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
        """Returns the stretches of an epoch, ranges of neighbouring samples, in the order in which
        they come into the memory from which this rank draws. Raises ValueError."""
        return self._orders.stretches(epoch, self.rank % self._memories)

    def _check(self, memory: StretchMemory) -> None:
        count = len(self.dataset)
        if len(memory) != count:
            raise ValueError(f"memory has {len(memory)} samples, and the dataset {count}")
        held = -(-int(self._share * count) // self.num_replicas) + self._reads
        needed = memory.room_bytes(min(count, held))
        if needed > (left := left_bytes()):
            raise ValueError(
                f"memory_share {self._share} of the samples takes {show_bytes(needed)}; "
                f"{show_bytes(left)} of memory are left"
            )

    def _orders_at(self, share: float) -> OpportunisticOrder:
        count = len(self.dataset)
        held = int(share * count)
        if held < min(2 * self._reads * self._memories, count):
            raise ValueError(
                f"memory_share is {share}: {held} of {count} samples; allowed are two reads of "
                f"{self._reads} (read_samples) or more for each of {self._memories} memories"
            )
        return OpportunisticOrder(
            count, held=held, together=self._reads, seed=self.seed, ranks=self._memories
        )

    def _level(self, orders: OpportunisticOrder) -> float:
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
