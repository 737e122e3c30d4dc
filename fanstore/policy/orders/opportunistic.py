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

    The dataset is cut into stretches of `together` neighbours; each stretch is read at once, in a
    random order of stretches, which is divided among `ranks` ranks. The memories of all ranks have
    room for `held` samples together; each holds whole stretches, two at least. From all samples in
    its memory a rank draws as many as a stretch has; then its next stretch takes their room, until
    all have come. So the samples that are needed at any time have room in memory, and each stretch
    comes once an epoch; one that two ranks share is cut. The paper does not say how memory is
    refilled; that is our own. The same arguments give the same orders everywhere. Raises ValueError
    for arguments out of range.
    """

    def __init__(
        self, sample_count: int, *, held: int, together: int, seed: int = 0, ranks: int = 1
    ) -> None:
        self.sample_count = checks.integer("sample_count", sample_count, 2, checks.SAMPLES_MAX)
        self._together = checks.integer("together", together, 1, self.sample_count)
        self._ranks = checks.integer("ranks", ranks, 1, self.sample_count)
        least = min(2 * self._together * ranks, self.sample_count)
        held = checks.integer("held", held, least, self.sample_count)
        self._seed = checks.seed_of_epochs(seed, 0)
        self.stretch_count = -(-self.sample_count // self._together)
        all_held = held == self.sample_count
        self._held = self.stretch_count if all_held else held // ranks // self._together

    def stretches(self, epoch: int, rank: int = 0) -> list[range]:
        """Returns the stretches of an epoch, ranges of neighbouring samples, in the order in which
        they come into a rank's memory."""
        return self._divided(self._generator(epoch))[rank]

    def samples(self, epoch: int) -> NDArray[np.uint32]:
        """Returns the samples of an epoch in the order in which all ranks together read them: one
        of each rank in turn."""
        generator = self._generator(epoch)
        found = np.empty(self.sample_count, np.uint32)
        for rank, coming in enumerate(self._divided(generator)):
            found[rank :: self._ranks] = self._drawn(coming, generator)
        return found

    def due(self, epoch: int, rank: int = 0) -> NDArray[np.int64]:
        """Returns, in the order of `stretches`, the number of the rank's draw of the epoch (from 0)
        before which each stretch must be in memory."""
        lengths = _lengths(self.stretches(epoch, rank))
        later = np.cumsum(lengths[self._held :])
        return np.concatenate((np.zeros(len(lengths) - len(later), np.int64), later))

    def level(self, epoch: int, samples: NDArray[np.uint32]) -> float:
        """Returns how random the order of an epoch was, from 0 to 1: the sum of the entropies of
        its draws, each given all draws before it, divided by log2(n!), that of a full shuffle.

        In a draw, all samples in the rank's memory of stretches seen before are equally likely.
        Those of unseen stretches are less likely, by the part of them that is not in this memory.
        samples: the return value of `samples` for this epoch. A shorter stretch counts as if it
        were like the others.
        """
        fresh, seen, come, drawn = np.zeros((4, self.sample_count), np.int64)
        for rank, coming in enumerate(self._divided(self._generator(epoch))):
            own = slice(rank, None, self._ranks)
            fresh[own] = _first_seen(samples[own], coming)
            seen[own] = np.cumsum(fresh[own]) - fresh[own]
            come[own] = self._come(_lengths(coming))
            drawn[own] = np.arange(len(drawn[own]))
        inside = come - drawn
        unseen_inside = np.maximum(come - seen, 0)
        unseen = np.maximum(self.sample_count - (np.cumsum(fresh) - fresh), 1)
        ratio = np.divide(unseen, unseen_inside, out=np.ones(len(unseen)), where=unseen_inside > 0)
        nats = np.log(inside) + unseen_inside / inside * np.log(ratio)
        return min(1.0, float(nats.sum()) / lgamma(self.sample_count + 1))

    def _divided(self, generator: Mt19937) -> list[list[range]]:
        """Draws the order of stretches. Returns those of each rank, which together have as many
        samples as the rank draws."""
        parts: list[list[range]] = []
        left = [self._members(each) for each in shuffles.front(self.stretch_count, generator)]
        left.reverse()
        for rank in range(self._ranks):
            parts.append([])
            room = len(range(rank, self.sample_count, self._ranks))
            while room > 0:
                stretch = left.pop()
                parts[rank].append(stretch[:room])
                if room < len(stretch):
                    left.append(stretch[room:])
                room -= len(parts[rank][-1])
        return parts

    def _members(self, stretch: np.uint32) -> range:
        """Returns the samples of a stretch: `together` neighbours, or fewer for the last one."""
        first = int(stretch) * self._together
        return range(first, min(first + self._together, self.sample_count))

    def _drawn(self, coming: list[range], generator: Mt19937) -> NDArray[np.uint32]:
        """Draws the samples of one rank."""
        arrays = [np.arange(each.start, each.stop, dtype=np.uint32) for each in coming]
        memory = np.concatenate(arrays[: self._held])
        drawn = []
        for stretch in arrays[self._held :]:
            shuffles.some(memory, generator.take(len(stretch)))
            drawn.append(memory[: len(stretch)].copy())
            memory[: len(stretch)] = stretch
        shuffles.some(memory, generator.take(len(memory)))
        return np.concatenate((*drawn, memory))

    def _generator(self, epoch: int) -> Mt19937:
        return Mt19937(self._seed + checks.integer("epoch", epoch, 0, 2**32 - 1))

    def _come(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns how many samples have come into a rank's memory before each of its draws."""
        rounds = lengths[self._held :]
        total = int(lengths[: self._held].sum()) + np.concatenate(([0], np.cumsum(rounds)))
        left = int(lengths.sum() - rounds.sum())
        return np.repeat(total, np.append(rounds, left))


def _lengths(stretches: list[range]) -> NDArray[np.int64]:
    return np.array([len(each) for each in stretches], np.int64)


def _first_seen(samples: NDArray[np.uint32], stretches: list[range]) -> NDArray[np.int64]:
    """Returns for each sample the length of its stretch if it is the first of it, else 0."""
    ordered = sorted(stretches, key=lambda each: each.start)
    starts = [each.start for each in ordered]
    seen, places = np.unique(np.searchsorted(starts, samples, "right") - 1, return_index=True)
    found = np.zeros(len(samples), np.int64)
    found[places] = _lengths(ordered)[seen]
    return found
