"""Simulates one policy, epoch by epoch."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.policy.cluster import ELSEWHERE, HERE, NOWHERE
from fanstore.study.machine import source_names
from fanstore.study.simulate.epochs import Epoch
from fanstore.study.simulate.filling import Filling
from fanstore.study.simulate.policies import AT_ONCE, IN_TURN, ON_DEMAND, PolicyPlan
from fanstore.study.simulate.results import PolicyOutcome
from fanstore.study.simulate.sources import Sources, codes_of, contended_sources, thread_shares
from fanstore.study.simulate.steps import Batches, Pipeline, StepCounter, staging_s
from fanstore.study.simulate.workload import Workload

if TYPE_CHECKING:
    from numpy.typing import NDArray


_ROUNDS = 5  # until an epoch lasts about as long as the filling in it assumed


class Runner:
    """The state of one policy's simulation: the files kept on each node, the time until which each
    rank has loaded, and the sums of all reads. `advance` adds an epoch, and `outcome` returns the
    results."""

    def __init__(self, workload: Workload, plan: PolicyPlan) -> None:
        self._system, self._plan = workload.system, plan
        classes = len(self._system.classes)
        self._codes: NDArray[np.uint8] | None = None
        self._filling: Filling | None = None
        self._kept_bytes = np.zeros((self._system.nodes, classes), dtype=np.int64)
        if plan.placement is not None:
            if plan.fills:
                self._filling = Filling(self._system, workload.sizes_bytes, plan.placement)
            else:
                self._codes = codes_of(plan.placement, classes)
            for kept, row in zip(self._kept_bytes, plan.placement, strict=True):
                kept[:] = np.bincount(row, workload.sizes_bytes, classes)[:classes]
        self._cache_codes = _cache_codes(classes)
        self._startup_s = staging_s(self._system, self._kept_bytes) if plan.preloaded else 0.0
        capacity = self._system.staging_buffer.capacity_bytes
        self._pipeline = Pipeline(self._system.ranks, capacity, self._startup_s)
        self._ends_s = [self._startup_s]
        self._computed_s = 0.0
        self._steps = StepCounter(self._startup_s)
        self._nothing = len(workload.sizes_bytes)  # the number of the empty sample
        self._samples = self._read_bytes = 0
        self._source_bytes = np.zeros(2 * classes + 1)

    def reads_of(self, epoch: int, reads: NDArray[np.intp]) -> NDArray[np.intp]:
        """Returns the policy's reads in place of the job's `reads`, which may be the same."""
        change = self._plan.reordering
        return reads if change is None else change(epoch, reads)

    def advance(self, epoch: Epoch) -> None:
        """Simulates the next epoch, whose reads must be those that reads_of returned."""
        self._computed_s += float(epoch.compute_s.sum())
        self._samples += int(np.count_nonzero(epoch.reads != self._nothing))
        if self._plan.loading in (AT_ONCE, IN_TURN):
            in_turn = self._plan.loading == IN_TURN
            step_s = self._in_turn_s(epoch) if in_turn else epoch.compute_s
            self._ends_s.append(self._ends_s[-1] + float(step_s.sum()))
        else:
            step_s = np.diff(self._pipeline.advance(self._loads(epoch)), prepend=self._ends_s[-1])
            self._ends_s.append(self._pipeline.end_s)
        step_bytes = epoch.batch_bytes.sum(axis=0)
        self._read_bytes += int(step_bytes.sum())
        self._steps.add(step_s, epoch.compute_s, step_bytes)

    def outcome(self) -> PolicyOutcome:
        """Returns the results of all epochs so far."""
        names = source_names(self._system)
        per_node = self._system.ranks_per_node * self._pipeline.staged_max_bytes
        cached = 0 if self._plan.caches is None else self._plan.caches.peak_bytes
        memory = int(self._kept_bytes[:, :1].sum(axis=1).max()) + cached + per_node
        return PolicyOutcome(
            epochs_s=np.diff(self._ends_s).tolist(),
            startup_s=self._startup_s,
            computed_s=self._computed_s,
            source_bytes=dict(zip(names, self._source_bytes.astype(int).tolist(), strict=True)),
            startup_bytes=int(self._kept_bytes.sum()) if self._plan.preloaded else 0,
            memory_max_bytes=memory,
            covered=self._plan.covered,
            samples=self._samples,
            read_bytes=self._read_bytes,
            steps=self._steps.figures(),
        )

    def _in_turn_s(self, epoch: Epoch) -> NDArray[np.float64]:
        """Returns how long each batch takes if each rank has one thread that loads from shared
        storage, prepares and computes in turn."""
        system = self._system
        each_s = 1 / system.shared.rate.share(system.ranks)
        each_s += 1 / system.preprocess_bytes_per_s + 1 / system.compute_bytes_per_s
        self._source_bytes[-1] += epoch.sizes_bytes.sum()
        step_s: NDArray[np.float64] = epoch.batch_bytes.max(axis=0) * each_s
        return step_s

    def _loads(self, epoch: Epoch) -> Batches:
        """Returns the batches of the next epoch, and counts from where they are read."""
        caches = self._plan.caches
        found = None if caches is None else caches.found(epoch.number, epoch.reads)
        if self._filling is not None:
            return self._while_filling(epoch, self._filling, found)
        there = epoch.number > 0 or self._plan.preloaded
        return self._counted(epoch, self._codes if there else None, found)

    def _while_filling(
        self, epoch: Epoch, filling: Filling, found: NDArray[np.uint8] | None
    ) -> Batches:
        """Returns the batches of an epoch in which storage classes are filled. How many samples
        came before they are read depends on how long the epoch lasts, and that on them."""
        started_s = self._ends_s[-1]
        lasts_s = float(epoch.compute_s.sum())
        filling.begin_epoch(epoch.reads)
        for _ in range(_ROUNDS):
            trial = copy(self._pipeline)
            trial.advance(self._batches(epoch, filling.codes(lasts_s), found)[0])
            lasts_s = (lasts_s + trial.end_s - started_s) / 2
        batches = self._counted(epoch, filling.codes(lasts_s), found)
        filling.end_epoch(lasts_s)
        if filling.is_done and self._plan.placement is not None:
            self._codes = codes_of(self._plan.placement, len(self._system.classes))
            self._filling = None
        return batches

    def _counted(
        self, epoch: Epoch, codes: NDArray[np.uint8] | None, found: NDArray[np.uint8] | None
    ) -> Batches:
        batches, source_bytes = self._batches(epoch, codes, found)
        self._source_bytes += source_bytes
        return batches

    def _codes_of(
        self, epoch: Epoch, kept: NDArray[np.uint8] | None, found: NDArray[np.uint8] | None
    ) -> list[NDArray[np.uint8]] | None:
        """Returns the codes of each rank's reads; None if nothing is kept yet. kept: the code of
        each sample on each node, without caches. found: from Caches."""
        local = self._system.ranks_per_node
        codes = None
        if kept is not None:
            codes = [kept[rank // local][row] for rank, row in enumerate(epoch.reads)]
        if found is None:
            return codes
        if codes is None:
            return list(self._cache_codes[found])
        pairs = zip(codes, found, strict=True)
        return [np.where(row == NOWHERE, each, self._cache_codes[row]) for each, row in pairs]

    def _batches(
        self, epoch: Epoch, kept: NDArray[np.uint8] | None, found: NDArray[np.uint8] | None
    ) -> tuple[Batches, NDArray[np.float64]]:
        """Returns the batches of an epoch, and the bytes that all ranks read from each source."""
        codes = self._codes_of(epoch, kept, found)
        code_bytes = self._bytes_by_code(epoch, codes)
        others = 0.0 if self._filling is None else self._filling.reading_ranks
        sources = contended_sources(self._system, code_bytes, others)
        source_bytes = np.zeros(len(self._source_bytes))
        fetched = self._fetched_by_code(epoch, codes)
        np.add.at(source_bytes, sources.numbers, code_bytes - fetched)
        source_bytes[-1] += fetched.sum()
        byte_s = self._byte_s(sources)
        later_s = np.zeros(len(byte_s))  # the seconds for a byte that is fetched on demand
        if self._plan.loading == ON_DEMAND:
            later_s = np.where(sources.numbers == sources.numbers[-1], sources.byte_s, 0.0)
            byte_s = np.where(later_s > 0, 0.0, byte_s)
        shape = (len(epoch.reads), epoch.batches, epoch.batch_size)
        loaded_s, waits_s = np.empty(shape), np.empty(shape[:2])
        for rank, sizes in enumerate(epoch.sizes_bytes):
            of_rank = slice(-1, None) if codes is None else codes[rank]
            np.cumsum((byte_s[of_rank] * sizes).reshape(shape[1:]), axis=1, out=loaded_s[rank])
            waits_s[rank] = (later_s[of_rank] * sizes).reshape(shape[1:]).sum(axis=1)
        if self._plan.balanced:
            loaded_s /= thread_shares(loaded_s[:, :, -1], self._system)[:, :, None]
        load_s = loaded_s[:, :, -1].copy()
        left_s = epoch.left_s.reshape(shape)
        loaded_s += left_s
        span_s = loaded_s.max(axis=2) + waits_s
        compute_s = (left_s[:, :, 0] + waits_s).max(axis=0)
        return Batches(load_s, span_s, compute_s, epoch.batch_bytes), source_bytes

    def _byte_s(self, sources: Sources) -> NDArray[np.float64]:
        """Returns the seconds for a byte of each code, with all threads of a rank."""
        threads, loaders = self._system.staging_buffer.threads, self._plan.loaders
        if not loaders:
            return sources.byte_s / threads
        fetch_s = 1 / sources.rates
        prepare_s = sources.byte_s - fetch_s
        return np.maximum(fetch_s / loaders, prepare_s / (threads - loaders))

    def _bytes_by_code(
        self, epoch: Epoch, codes: list[NDArray[np.uint8]] | None
    ) -> NDArray[np.float64]:
        """Returns the bytes that all ranks read, by code; the last one is for samples that no node
        keeps."""
        code_bytes = np.zeros((len(self._system.classes) + 1) ** 2)
        if codes is None:
            code_bytes[-1] = epoch.batch_bytes.sum()
            return code_bytes
        for row, sizes in zip(codes, epoch.sizes_bytes, strict=True):
            code_bytes += np.bincount(row, sizes, len(code_bytes))
        return code_bytes

    def _fetched_by_code(
        self, epoch: Epoch, codes: list[NDArray[np.uint8]] | None
    ) -> NDArray[np.float64]:
        """Returns, of these bytes, those that are fetched from shared storage in this epoch to be
        kept, by the rank itself or by the threads of a storage class."""
        fetched = np.zeros((len(self._system.classes) + 1) ** 2)
        if self._filling is None or codes is None:
            return fetched
        for row, reads, sizes in zip(codes, epoch.reads, epoch.sizes_bytes, strict=True):
            fetched += np.bincount(row, sizes * self._filling.fresh[reads], len(fetched))
        return fetched


def _cache_codes(classes: int) -> NDArray[np.uint8]:
    """Returns the code of a sample for each place in caches, if no node keeps it otherwise."""
    codes = np.empty(3, dtype=np.uint8)
    codes[NOWHERE] = (classes + 1) ** 2 - 1
    codes[HERE] = classes
    codes[ELSEWHERE] = classes * (classes + 1)
    return codes
