"""Collates batches in a worker directly into a slot, and keeps freed memory for the next
samples."""

from __future__ import annotations

import ctypes
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import default_collate, get_worker_info
from torch.utils.data._utils import collate as torchs
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from fanstore.torch.batches.parcel import Parcel, tensor_of
from fanstore.torch.batches.slots import Array, SlotFilling, Slots

# Parameters of mallopt(3). The first accepts at most 32 MiB in glibc.
_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1
_THRESHOLDS = {_MMAP_THRESHOLD: 32 << 20, _TRIM_THRESHOLD: 1 << 30}
_OWN_CHOICES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed() -> None:
    """Makes malloc keep up to 1 GiB of freed memory for the next samples, because for an image it
    costs more to get memory from the kernel again than to decode it. Changes nothing if the
    environment sets such thresholds, or malloc is not glibc's."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name in os.environ for name in _OWN_CHOICES):
        return
    for option, value in _THRESHOLDS.items():
        mallopt(option, value)


_stack = torchs.default_collate_fn_map[torch.Tensor]
_slots: Slots | None = None  # of the loader whose worker this process is
_filling: SlotFilling | None = None  # the slot into which this worker collates now
_begun_s = 0.0  # when this worker began its present batch, by the monotonic clock


class WorkerStart:
    """Runs at the start of a worker, before the user's own function. Makes torch's default
    collation stack tensors into slots, and keeps freed memory for the next samples."""

    def __init__(self, slots: Slots, own: Callable[[int], Any] | None) -> None:
        self._slots = slots
        self._own = own

    def __call__(self, worker: int) -> None:
        global _slots
        _slots = self._slots
        keep_freed()
        torchs.default_collate_fn_map[torch.Tensor] = _stack_into_slot
        for fetcher in (_MapDatasetFetcher, _IterableDatasetFetcher):
            fetcher.fetch = _timed(fetcher.fetch)
        if self._own is not None:
            self._own(worker)


class Collation:
    """Collates with `own` and returns a parcel. If no slot is free, for example because the program
    keeps many batches, returns the batch itself, which torch then sends in its own way."""

    def __init__(self, own: Callable[[Any], Any]) -> None:
        self._own = own

    def __call__(self, samples: Any) -> Any:
        global _filling
        is_whole = isinstance(samples, WholeBatch)
        filling = samples.filling if is_whole else _begin()
        if filling is None:
            return self._own(samples)
        if is_whole and self._own is default_collate:
            return Parcel(samples.batch, filling, _begun_s)
        _filling = filling
        try:
            return Parcel(self._own(samples), filling, _begun_s)
        finally:
            _filling = None


class WholeBatch(Sequence[torch.Tensor]):
    """The samples of a batch that a dataset reads in one step into the batch's slot. Each sample is
    a row of bytes."""

    def __init__(self, filling: SlotFilling, memory: Array, samples: int) -> None:
        self.filling = filling
        self.rows = memory.reshape(samples, -1)
        self.batch = tensor_of(memory, torch.uint8, self.rows.shape)

    def __len__(self) -> int:
        return len(self.batch)

    def __getitem__(self, at: Any) -> Any:
        return self.batch[at]

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.batch.unbind(0))


def whole_batch(samples: int, sample_bytes: int) -> WholeBatch | None:
    """Returns room in a slot for `samples` samples of `sample_bytes` bytes (both 1 or more).
    Returns None if this process is no worker of such a loader, or no slot is free."""
    filling = _begin()
    if filling is None:
        return None
    return WholeBatch(filling, filling.take(samples * sample_bytes), samples)


def _timed(fetching: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fetching)
    def fetch(*args: Any) -> Any:
        global _begun_s
        _begun_s = time.monotonic()
        return fetching(*args)

    return fetch


def _begin() -> SlotFilling | None:
    worker = get_worker_info()
    return None if worker is None or _slots is None else _slots.begin(worker.id)


def _stack_into_slot(batch: Sequence[torch.Tensor], *, collate_fn_map: Any = None) -> torch.Tensor:
    """Stacks tensors like torch's own function, but into the slot's memory."""
    first = batch[0]
    count = first.numel() * len(batch)
    is_plain = first.layout is torch.strided and first.device.type == "cpu"
    if _filling is None or count == 0 or not is_plain or first.is_quantized or first.is_nested:
        return _stack(batch, collate_fn_map=collate_fn_map)
    memory = _filling.take(count * first.itemsize)
    out = tensor_of(memory, first.dtype, (len(batch), *first.shape))
    return torch.stack(tuple(batch), 0, out=out)
