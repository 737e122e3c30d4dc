"""A parcel, the form in which a worker sends a batch: a slot that holds the batch's arrays, and a
pickle of everything else."""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Sequence
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch

from fanstore.torch.batches.slots import Array, SlotFilling, receive


class Parcel:
    """A batch whose arrays lie in a slot. Unpickling it in the loader's process returns the batch
    itself. begun_s: when its worker began it, by the monotonic clock."""

    def __init__(self, batch: Any, filling: SlotFilling, begun_s: float) -> None:
        stream = io.BytesIO()
        buffers: list[pickle.PickleBuffer] = []
        _Pickler(stream, buffers.append).dump(batch)
        self._content = stream.getvalue()
        self._places = [filling.place(_bytes(each)) for each in buffers]
        self._slot = filling.send() if buffers else None
        self._work_s = time.monotonic() - begun_s

    def __reduce__(self) -> tuple[Any, ...]:
        if self._slot is None:
            return pickle.loads, (self._content,)
        return opened, (self._content, self._places, *self._slot, self._work_s)


def opened(
    content: bytes,
    places: Sequence[tuple[int, int]],
    number: int,
    slot: int,
    size: int,
    work_s: float,
) -> Any:
    """Returns the batch of a parcel, whose tensors and arrays use the slot's memory. Returns None
    if the iterator that the batch was for no longer exists."""
    memory = receive(number, slot, size, work_s)
    if memory is None:
        return None
    return pickle.loads(content, buffers=[memory[at : at + length].data for at, length in places])


class _Pickler(pickle.Pickler):
    """A pickler that puts the memory of arrays and plain tensors into the slot (pickle protocol 5).
    Other tensors, such as sparse ones, are sent as torch's multiprocessing sends them."""

    def __init__(self, stream: io.BytesIO, give: Any) -> None:
        super().__init__(stream, 5, buffer_callback=lambda buffer: _given(give, buffer))
        self.dispatch_table = ForkingPickler(io.BytesIO()).dispatch_table

    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is not torch.Tensor or not _is_plain(thing):
            return NotImplemented
        if thing.numel() == 0:
            return _empty, (tuple(thing.shape), thing.dtype)
        flat = torch.empty(0, dtype=torch.uint8).set_(
            thing.untyped_storage(), thing.storage_offset() * thing.itemsize, (thing.nbytes,)
        )
        return tensor_of, (pickle.PickleBuffer(flat.numpy()), thing.dtype, tuple(thing.shape))


def _given(give: Any, buffer: pickle.PickleBuffer) -> bool:
    """Passes a buffer to `give`, unless it is empty or read-only. Returns True if the buffer must
    be pickled instead."""
    raw = buffer.raw()
    if raw.nbytes == 0 or raw.readonly:
        return True
    give(buffer)
    return False


def _bytes(buffer: pickle.PickleBuffer) -> Array:
    return np.frombuffer(buffer.raw(), np.uint8)


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_nested)
        and not (tensor.is_conj() or tensor.is_neg())
        and tensor.is_contiguous()
    )


def _empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def tensor_of(buffer: Any, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Returns a tensor over a buffer's memory. Its storage has exactly the buffer's size."""
    storage = torch.frombuffer(buffer, dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=dtype).set_(storage, 0, shape)
