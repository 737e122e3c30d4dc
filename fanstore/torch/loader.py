"""A data loader whose workers put batches into memory that is used again (docs/loaders.md)."""

from __future__ import annotations

import copy
from typing import Any

import torch.utils.data
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from fanstore.torch.batches.collating import Collation, WorkerStart
from fanstore.torch.batches.slots import Slots

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

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            return super()._get_iterator()
        loader = copy.copy(self)
        slots = Slots(self.num_workers, self.prefetch_factor + _IN_USE)
        loader.collate_fn = Collation(self.collate_fn)
        loader.worker_init_fn = WorkerStart(slots, self.worker_init_fn)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(loader)
