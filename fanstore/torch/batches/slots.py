"""Memory files (slots) that workers fill with batches, one batch in each, again and again."""

from __future__ import annotations

import itertools
import mmap
import os
import weakref
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np

from fanstore.errors import FanstoreError
from fanstore.staging.memory import left_bytes

ALIGN = 64  # for each array in a slot: the size of a processor's cache line
_STEP = 1 << 21
_FREE, _TAKEN = 0, 1
Array = np.ndarray[Any, Any]

_numbers = itertools.count(1)
_open: weakref.WeakValueDictionary[int, Slots] = weakref.WeakValueDictionary()


class Slots:
    """The slots of one iterator: `each` for each of its workers, and only that worker fills them.

    A worker takes a slot, and the loader's process frees it when the last array of its batch is
    gone. Each slot has one byte of shared memory for its state. Only the worker sets it to taken;
    only the loader's process sets it to free. The files have no name, so nothing is left behind,
    and they grow with the batches. If the slots are pickled for a worker that is spawned, the
    descriptors go with them.
    """

    def __init__(self, workers: int, each: int) -> None:
        self.number = next(_numbers)
        self.work_s: list[float] = []  # for each batch received: seconds that its worker was busy
        self._each = each
        self._owner = os.getpid()
        count = workers * each
        fds = [os.memfd_create("fanstore-batches", os.MFD_CLOEXEC) for _ in range(count + 1)]
        os.ftruncate(fds[count], count)
        self._attach(fds)
        _open[self.number] = self

    def _attach(self, fds: list[int]) -> None:
        self._fds = fds
        self._states = mmap.mmap(fds[-1], len(fds) - 1)
        self._maps: dict[int, mmap.mmap] = {}
        self._lent: dict[int, list[weakref.ref[Array]]] = {}
        weakref.finalize(self, _close, fds).atexit = False

    def __getstate__(self) -> tuple[Any, ...]:
        return self.number, self._each, self._owner, [DupFd(fd) for fd in self._fds]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.number, self._each, self._owner, fds = state
        self.work_s = []
        self._attach([each.detach() for each in fds])

    # ---- called in workers ----

    def begin(self, worker: int) -> SlotFilling | None:
        """Returns a free slot for a worker to fill. Returns None if the loader's process, or this
        one, still uses arrays in all of the worker's slots."""
        for slot in range(worker * self._each, (worker + 1) * self._each):
            if self._states[slot] == _FREE:
                self._lent[slot] = [each for each in self._lent.get(slot, []) if each() is not None]
                if not self._lent[slot]:
                    return SlotFilling(self, slot)
        return None

    def lend(self, slot: int, offset: int, size: int) -> Array:
        """Returns `size` bytes of a slot as an array to write to. Enlarges the slot if it is too
        small. Raises FanstoreError if memory is short."""
        mapped = self._maps.get(slot)
        if mapped is None or len(mapped) < offset + size:
            mapped = self._maps[slot] = self._grown(slot, offset + size)
        array = np.frombuffer(mapped, np.uint8, size, offset)
        self._lent.setdefault(slot, []).append(weakref.ref(array))
        return array

    def _grown(self, slot: int, size: int) -> mmap.mmap:
        had = os.fstat(self._fds[slot]).st_size
        size = -(-max(size, min(2 * had, size + (size >> 2))) // _STEP) * _STEP
        left = left_bytes()
        if size - had > left:
            raise FanstoreError(
                f"a batch needs {size - had:,} bytes more of shared memory, and {left:,} are left: "
                "use smaller batches, fewer workers or a lower prefetch_factor"
            )
        os.ftruncate(self._fds[slot], size)
        return mmap.mmap(self._fds[slot], size)

    def send(self, slot: int) -> None:
        """Marks a filled slot as taken by the loader's process."""
        self._states[slot] = _TAKEN

    # ---- called in the loader's process ----

    def receive(self, slot: int, size: int, work_s: float) -> Array:
        """Returns the first `size` bytes of a slot. The slot is freed when this array, and all
        arrays made from it, are gone. work_s: how long its worker was busy with the batch, in
        seconds."""
        self.work_s.append(work_s)
        mapped = self._maps.get(slot)
        if mapped is None or len(mapped) < size:
            mapped = self._maps[slot] = mmap.mmap(self._fds[slot], 0)
        array = np.frombuffer(mapped, np.uint8, size)
        weakref.finalize(array, _free, self._states, slot, self._owner).atexit = False
        return array


class SlotFilling:
    """A slot while a worker fills it."""

    def __init__(self, slots: Slots, slot: int) -> None:
        self._slots = slots
        self.slot = slot
        self.end = 0
        # address: the offset in the slot, the array.
        self._places: dict[int, tuple[int, weakref.ref[Array]]] = {}

    def take(self, size: int) -> Array:
        """Returns the next `size` bytes (1 or more) of the slot, to write to. Raises FanstoreError
        if memory is short."""
        array = self._slots.lend(self.slot, self.end, size)
        self._places[array.ctypes.data] = self.end, weakref.ref(array)
        self.end += -(-size // ALIGN) * ALIGN
        return array

    def place(self, content: Array) -> tuple[int, int]:
        """Returns the offset and size of `content` in the slot. Copies it there, unless `take`
        returned its memory."""
        offset, array = self._places.get(content.ctypes.data, (0, lambda: None))
        taken = array()  # a new array may have the address of one that was freed
        if taken is None or len(taken) != len(content):
            offset = self.end
            self.take(len(content))[...] = content
        return offset, len(content)

    def send(self) -> tuple[int, int, int]:
        """Passes the slot to the loader's process. Returns the number of its Slots, its own number,
        and its size."""
        self._slots.send(self.slot)
        return self._slots.number, self.slot, self.end


def receive(number: int, slot: int, size: int, work_s: float) -> Array | None:
    """Returns the bytes that a worker sent; None if the iterator that they were for no longer
    exists."""
    slots = _open.get(number)
    return None if slots is None else slots.receive(slot, size, work_s)


def _free(states: mmap.mmap, slot: int, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child, whose arrays are copies
        states[slot] = _FREE


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
