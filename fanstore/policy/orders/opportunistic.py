"""DeepIO's opportunistic order: samples are drawn from memory, which is refilled by reads of many
neighbouring samples at once (Zhu et al. 2018, section 3)."""

from __future__ import annotations

from math import lgamma
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy import checks
from fanstore.policy.orders import shuffles
from fanstore.policy.orders.generators import Mt19937

if TYPE_CHECKING:
    from numpy.typing import NDArray


class OpportunisticOrder:
    """The orders of all epochs of `sample_count` samples, each once an epoch.

    The dataset is cut into stretches of `together` neighbours; each stretch is read at once. Memory
    has room for `held` samples, in whole stretches, two at least. From all samples in memory, as
    many are drawn as a stretch has; then the next stretch takes their room, in a random order of
    stretches, until all have come. So the samples that are needed at any time have room in memory,
    and each stretch comes once an epoch. The paper does not say how memory is refilled; that is our
    own. The same arguments give the same orders everywhere. Raises ValueError for arguments out of
    range.
    """

    def __init__(self, sample_count: int, *, held: int, together: int, seed: int = 0) -> None:
        self.sample_count = checks.integer("sample_count", sample_count, 2, checks.SAMPLES_MAX)
        self._together = checks.integer("together", together, 1, self.sample_count)
        least = min(2 * self._together, self.sample_count)
        held = checks.integer("held", held, least, self.sample_count)
        self._seed = checks.seed_of_epochs(seed, 0)
        self.stretch_count = -(-self.sample_count // self._together)
        all_held = held == self.sample_count
        self._held = self.stretch_count if all_held else held // self._together

    def arrivals(self, epoch: int) -> NDArray[np.uint32]:
        """Returns the stretches of an epoch in the order in which they come into memory."""
        return shuffles.front(self.stretch_count, self._generator(epoch))

    def members(self, stretch: int) -> range:
        """Returns the samples of a stretch: `together` neighbours, or fewer for the last one."""
        first = stretch * self._together
        return range(first, min(first + self._together, self.sample_count))

    def samples(self, epoch: int) -> NDArray[np.uint32]:
        """Returns the samples of an epoch in the order in which all ranks together read them."""
        generator = self._generator(epoch)
        arrivals = shuffles.front(self.stretch_count, generator)
        everything = np.arange(self.sample_count, dtype=np.uint32)
        coming = [
            everything[each.start : each.stop] for each in map(self.members, arrivals.tolist())
        ]
        memory = np.concatenate(coming[: self._held])
        drawn = []
        for stretch in coming[self._held :]:
            shuffles.some(memory, generator.take(len(stretch)))
            drawn.append(memory[: len(stretch)].copy())
            memory[: len(stretch)] = stretch
        shuffles.some(memory, generator.take(len(memory)))
        return np.concatenate((*drawn, memory))

    def due(self, epoch: int) -> NDArray[np.int64]:
        """Returns, in the order of `arrivals`, the number of the draw of the epoch (from 0) before
        which each stretch must be in memory."""
        lengths = self._lengths(self.arrivals(epoch))
        later = np.cumsum(lengths[self._held :])
        return np.concatenate((np.zeros(len(lengths) - len(later), np.int64), later))

    def level(self, epoch: int, samples: NDArray[np.uint32]) -> float:
        """Returns how random the order of an epoch was, from 0 to 1: the sum of the entropies of
        its draws, each given all draws before it, divided by log2(n!), that of a full shuffle.

        In a draw, all samples in memory of stretches seen before are equally likely. Those of
        unseen stretches are less likely, by the part of them that is not in memory yet. samples:
        the return value of `samples` for this epoch. If sample_count is no multiple of `together`,
        the last stretch counts as if it were like the others.
        """
        seen, places = np.unique(samples // self._together, return_index=True)
        opened = np.zeros(self.sample_count, np.int64)
        opened[places] = self._lengths(seen)
        opened = np.cumsum(opened) - opened  # how many stretches before each draw
        come = self._come(self._lengths(self.arrivals(epoch)))
        inside = come - np.arange(self.sample_count)
        unseen_inside = np.maximum(come - opened, 0)
        unseen = np.maximum(self.sample_count - opened, 1)
        ratio = np.divide(unseen, unseen_inside, out=np.ones(len(unseen)), where=unseen_inside > 0)
        nats = np.log(inside) + unseen_inside / inside * np.log(ratio)
        return min(1.0, float(nats.sum()) / lgamma(self.sample_count + 1))

    def _generator(self, epoch: int) -> Mt19937:
        return Mt19937(self._seed + checks.integer("epoch", epoch, 0, 2**32 - 1))

    def _lengths(self, stretches: NDArray[np.uint32]) -> NDArray[np.int64]:
        first = stretches.astype(np.int64) * self._together
        return np.minimum(self._together, self.sample_count - first)

    def _come(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns how many samples have come into memory before each draw."""
        rounds = lengths[self._held :]
        total = int(lengths[: self._held].sum()) + np.concatenate(([0], np.cumsum(rounds)))
        left = self.sample_count - int(rounds.sum())
        return np.repeat(total, np.append(rounds, left))
