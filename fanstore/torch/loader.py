"""A data loader whose workers put batches into memory that is used again (docs/loaders.md)."""

from __future__ import annotations

import copy
from typing import Any

import torch.utils.data
from torch.utils.data.dataloader import (
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from fanstore.torch.batches.collating import Collation, WorkerStart
from fanstore.torch.batches.slots import Slots
from fanstore.torch.resuming import Counted, EpochProgress, Resumed, check, state_of

# Of each worker: beside those that are ahead, the batch in use and the one that takes its place.
_IN_USE = 2


class DataLoader(torch.utils.data.DataLoader):
    """torch.utils.data.DataLoader, with all its arguments, and the same batches, orders, random
    numbers and exceptions.

    Workers collate straight into slots of shared memory that both processes have mapped: a batch
    is neither copied once more nor pickled, and no file is made for it. Tensors and NumPy arrays of
    a batch, in whatever containers `collate_fn` puts them, are memory of its slot, which is used
    again when the last of them is gone. A program that keeps more batches than `prefetch_factor` +
    2 of each worker gets the others as torch sends them. With num_workers=0 it is torch's loader.

    Raises as torch's loader, and FanstoreError where memory for slots is too small.
    """

    num_workers: int
    _iterator: Any  # of workers that persist
    _progress: EpochProgress | None = None
    _work_s: list[float] | None = None  # of batches of the workers that were started last
    _state: dict[str, Any] | None = None  # from which the next epoch goes on

    def __iter__(self) -> Any:
        """Returns an iterator over the batches of the next epoch, or of the rest of the one that a
        state was loaded of."""
        self._progress = EpochProgress(self, 0 if self._state is None else self._state["batches"])
        if self._state is None:
            if self._iterator is not None:
                self._iterator.progress = self._progress
            return super().__iter__()
        self._iterator = None  # persistent workers, whose iterator draws another order
        drawn = torch.get_rng_state()
        try:
            return super().__iter__()
        finally:
            torch.set_rng_state(drawn)  # what this epoch drew when it began, was drawn then

    def state_dict(self) -> dict[str, Any]:
        """Returns where the loader is: how many batches of the epoch that began last it has given,
        and the states of the generators that its order came from, for torch.save. Between epochs it
        is where the next one begins. Raises UsageError for an IterableDataset."""
        return state_of(self, self._progress) if self._state is None else self._state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Has the next epoch go on where `state` was taken: with the batch after the last one that
        was given, in the same order. Samples of the batches before are not read. Raises UsageError
        for a state of a loader with other samples, batch size or sampler, and for an
        IterableDataset."""
        check(self, state)
        self._state = None if state["between"] else state

    @property
    def is_epoch_over(self) -> bool:
        """Whether all batches of the epoch that began last were given."""
        return self._progress is not None and self._progress.is_over

    def leave_epoch(self) -> None:
        """Says that the rest of the epoch under way will not be asked for: the state is then that
        between epochs."""
        self._progress = None

    def take_times(self) -> tuple[list[float], list[float]]:
        """Returns seconds of the batches of this epoch and, of workers that persist, earlier ones
        that were not asked for: how long a worker loaded and prepared each, and how long the
        program had each until it asked for the next. Those that are returned are forgotten."""
        work_s = self._work_s or []
        train_s = [] if self._progress is None else self._progress.train_s
        taken = work_s[:], train_s[:]
        del work_s[: len(taken[0])], train_s[:]
        return taken

    def set_workers(self, count: int) -> None:
        """Has the next epoch begin with `count` workers, 1 or more. Workers that persist end."""
        if count != self.num_workers:
            self.num_workers = count
            self._iterator = None

    def _get_iterator(self) -> Any:
        loader = copy.copy(self)
        progress = self._progress = self._progress or EpochProgress(self)
        if self._state is not None:
            part = "sampler" if self.batch_sampler is None else "batch_sampler"
            loader.__dict__[part] = Resumed(self, self._index_sampler, self._state)
            self._state = None
        if self.num_workers == 0:
            return _Alone(loader, progress)
        slots = Slots(self.num_workers, self.prefetch_factor + _IN_USE)
        self._work_s = slots.work_s
        loader.collate_fn = Collation(self.collate_fn)
        loader.worker_init_fn = WorkerStart(slots, self.worker_init_fn)
        self.check_worker_number_rationality()
        return _Workers(loader, progress)


class _Alone(Counted, _SingleProcessDataLoaderIter):
    """An iterator that prepares batches itself."""


class _Workers(Counted, _MultiProcessingDataLoaderIter):
    """An iterator whose workers prepare batches."""
