"""One policy on its way through the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.simulate.epochs import Epoch
from fanstore.simulate.pipeline import Batches, Pipeline
from fanstore.simulate.policies import AHEAD, IN_TURN, Plan
from fanstore.simulate.results import Outcome
from fanstore.simulate.sources import Sources, codes_of, source_names, sources_of
from fanstore.simulate.staging import staging_s
from fanstore.simulate.world import World

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Runner:
    """Takes a policy through the epochs of a job, one after the other."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._system, self._plan = world.system, plan
        classes = len(self._system.classes)
        self._codes: NDArray[np.uint8] | None = None
        self._kept_bytes = np.zeros((self._system.nodes, classes), dtype=np.int64)
        if plan.placement is not None:
            self._codes = codes_of(plan.placement, classes)
            for number in range(classes):
                self._kept_bytes[:, number] = (plan.placement == number) @ world.sizes_bytes
        self._startup_s = staging_s(self._system, self._kept_bytes) if plan.preloaded else 0.0
        capacity = self._system.staging_buffer.capacity_bytes
        self._pipeline = Pipeline(self._system.ranks, capacity, self._startup_s)
        self._ends_s = [self._startup_s]
        self._computed_s = 0.0
        self._source_bytes = np.zeros(2 * classes + 1)

    def reads_of(self, epoch: int, reads: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Returns what the policy reads where the job's order is `reads`: that, if unchanged."""
        change = self._plan.reordering
        return reads if change is None else change(epoch, reads)

    def advance(self, epoch: Epoch) -> None:
        """Goes through an epoch of what reads_of returned."""
        compute_s = epoch.compute_s().max(axis=0)
        self._computed_s += float(compute_s.sum())
        if self._plan.loading == AHEAD:
            load_s, span_s = self._loads(epoch)
            self._pipeline.advance(Batches(load_s, span_s, compute_s, epoch.batch_bytes()))
            self._ends_s.append(self._pipeline.end_s)
        elif self._plan.loading == IN_TURN:
            self._ends_s.append(self._ends_s[-1] + self._in_turn_s(epoch))
        else:
            self._ends_s.append(self._ends_s[-1] + float(compute_s.sum()))

    def outcome(self) -> Outcome:
        """Returns what came of it."""
        names = source_names(self._system)
        per_node = self._system.ranks_per_node * self._pipeline.staged_max_bytes
        memory = int(self._kept_bytes[:, :1].sum(axis=1).max()) + per_node
        return Outcome(
            epochs_s=np.diff(self._ends_s).tolist(),
            startup_s=self._startup_s,
            computed_s=self._computed_s,
            source_bytes=dict(zip(names, self._source_bytes.astype(int).tolist(), strict=True)),
            startup_bytes=int(self._kept_bytes.sum()) if self._plan.preloaded else 0,
            memory_max_bytes=memory,
            covered=self._plan.covered,
        )

    def _in_turn_s(self, epoch: Epoch) -> float:
        """One thread of each rank loads from shared storage, prepares and computes, in turn."""
        system = self._system
        each_s = 1 / system.shared.share_bytes_per_s(system.ranks)
        each_s += 1 / system.preprocess_bytes_per_s + 1 / system.compute_bytes_per_s
        self._source_bytes[-1] += epoch.sizes_bytes.sum()
        return float(epoch.batch_bytes().max(axis=0).sum()) * each_s

    def _loads(self, epoch: Epoch) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """load_s and span_s of Batches."""
        system = self._system
        filled = self._codes is not None and (self._plan.preloaded or epoch.number > 0)
        sources = sources_of(system, self._shared_ranks(epoch) if filled else system.ranks)
        byte_s = sources.byte_s / system.staging_buffer.threads
        shape = (len(epoch.reads), epoch.batches)
        load_s, span_s = np.empty(shape), np.empty(shape)
        for rank, sizes in enumerate(epoch.sizes_bytes):
            if filled:
                codes = self._codes_of(epoch, rank)
                self._count(sources, np.bincount(codes, sizes, len(byte_s)))
                each_s = byte_s[codes] * sizes
            else:
                self._source_bytes[-1] += sizes.sum()
                each_s = byte_s[-1] * sizes
            loaded_s = each_s.reshape(-1, epoch.batch_size).cumsum(axis=1)
            load_s[rank] = loaded_s[:, -1]
            loaded_s += epoch.left_s[rank].reshape(-1, epoch.batch_size)
            span_s[rank] = loaded_s.max(axis=1)
        return load_s, span_s

    def _codes_of(self, epoch: Epoch, rank: int) -> NDArray[np.uint8]:
        assert self._codes is not None
        codes: NDArray[np.uint8] = self._codes[rank // self._system.ranks_per_node][
            epoch.reads[rank]
        ]
        return codes

    def _shared_ranks(self, epoch: Epoch) -> float:
        """How many ranks read from shared storage at a time: as many as the reads are of which no
        node keeps the file."""
        last = (len(self._system.classes) + 1) ** 2 - 1
        wanted = [self._codes_of(epoch, rank) == last for rank in range(len(epoch.reads))]
        full = [sizes > 0 for sizes in epoch.sizes_bytes]
        shared = sum(int((a & b).sum()) for a, b in zip(wanted, full, strict=True))
        return self._system.ranks * shared / max(1, sum(int(each.sum()) for each in full))

    def _count(self, sources: Sources, code_bytes: NDArray[np.float64]) -> None:
        self._source_bytes += np.bincount(sources.numbers, code_bytes, len(self._source_bytes))
