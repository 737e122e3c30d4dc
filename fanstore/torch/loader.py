"""A data loader whose workers write batches to memory that is used again (docs/loaders.md)."""

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

# Slots of each worker besides those for prefetched batches: for the batch in use and the next one.
_IN_USE = 2


class DataLoader(torch.utils.data.DataLoader):
    """torch.utils.data.DataLoader, with all its arguments, and the same batches, orders, random
    numbers and exceptions.

    Workers collate straight into slots of shared memory that both processes have mapped: a batch is
    neither copied once more nor pickled, and no file is made for it. Tensors and NumPy arrays of a
    batch, in any containers of `collate_fn`, lie in the memory of its slot, which is used again
    when the last of them is gone. If a program keeps more batches than `prefetch_factor` + 2 of
    each worker, torch's own way sends the others. With num_workers=0 it is torch's loader.

    Raises as torch's loader, and FanstoreError if memory for slots is too small.
    """

    num_workers: int
    _iterator: Any  # set in torch's class, if workers persist
    _progress: EpochProgress | None = None
    _work_s: list[float] | None = None  # work_s of the iterator that was made last
    _state: dict[str, Any] | None = None  # a loaded state, from which the next epoch continues

    def __iter__(self) -> Any:
        """Returns an iterator over the batches of the next epoch or, after a state was loaded, over
        the rest of the state's epoch."""
        self._progress = EpochProgress(self, 0 if self._state is None else self._state["batches"])
        if self._state is None:
            if self._iterator is not None:
                self._iterator.progress = self._progress
            return super().__iter__()
        self._iterator = None  # persistent workers end: their iterator would draw another order
        drawn = torch.get_rng_state()
        try:
            return super().__iter__()
        finally:
            # The loaded epoch drew its random numbers when it first began.
            torch.set_rng_state(drawn)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the loader for torch.save: how many batches of the present epoch it
        has yielded, and the states of the generators that drew its order. Between two epochs it is
        the state at the beginning of the next one. Raises UsageError for an IterableDataset."""
        return state_of(self, self._progress) if self._state is None else self._state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next epoch continue from `state`, with the batch after the last one that was
        yielded, in the same order. The samples of earlier batches are not read. Raises UsageError
        for a state of a loader with other samples, batch size or sampler, and for an
        IterableDataset."""
        check(self, state)
        self._state = None if state["between"] else state

    @property
    def is_epoch_over(self) -> bool:
        """Whether all batches of the present epoch were yielded."""
        return self._progress is not None and self._progress.is_over

    def leave_epoch(self) -> None:
        """Leaves the present epoch, whose remaining batches nobody will ask for. The state is then
        the one between two epochs."""
        self._progress = None

    def take_times(self) -> tuple[list[float], list[float]]:
        """Returns the times of this epoch's batches, in seconds: how long a worker loaded and
        prepared each, and how long the program used each before it asked for the next. With
        persistent workers, the first list also contains earlier batches whose times were not
        returned yet. Forgets the returned times."""
        work_s = self._work_s or []
        train_s = [] if self._progress is None else self._progress.train_s
        taken = work_s[:], train_s[:]
        del work_s[: len(taken[0])], train_s[:]
        return taken

    def set_workers(self, count: int) -> None:
        """Makes the next epoch begin with `count` workers (1 or more). Persistent workers end."""
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
    """An iterator that prepares batches in the loader's own process."""


class _Workers(Counted, _MultiProcessingDataLoaderIter):
    """An iterator whose workers prepare batches."""
