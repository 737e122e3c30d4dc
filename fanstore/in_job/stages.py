"""Measures one stage of a job, for `fanstore study analyze`. See start.py and docs/analyze.md.

FANSTORE_ANALYZE is JSON with the fields `phase`, `steps`, `directory` (for the records) and
`loader`, the number of the loader that training reads from (None: not known yet).

    job       batches go to the job as they come
    memory    the same
    ingest    the job gets the first batch again and again: the loader does nothing
    prepare   the loader's batches are dropped as they come: the job does nothing

A process writes NAME.begun at its first batch and NAME.json when its steps are done, and ends when
the file `stop` appears. It ends at once and runs no exit handlers: no checkpoint is written.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import functools
import json
import os
import signal
import socket
import sys
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fanstore.in_job.told import Asked, LoaderMeasured

_LOOK_EVERY_S = 0.05
_PATIENCE_S = 60.0  # the longest wait for `stop`: the analyzer may have died
_SYNCHRONISED = 20  # how often a phase waits for the GPU


class Stages:
    """Watches the loaders of one process and of those that it forks."""

    def __init__(self, asked: Asked, torch: Any) -> None:
        self._phase = asked["phase"]
        self._steps = int(asked["steps"])
        self._directory = asked["directory"]
        self._training = asked["loader"]
        self._torch = torch
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._name = os.path.join(self._directory, f"{socket.gethostname()}-{self._pid}")
        self._loaders: Any = weakref.WeakKeyDictionary()  # loader: its _Seen
        self._of: Any = weakref.WeakKeyDictionary()  # iterator: the _Seen of its loader
        self._all: list[Any] = []
        self._iterators: Any = weakref.WeakSet()
        self._begun = self._done = False
        self._done_s = self._looked_s = 0.0

    def made(self, iterator: Any, loader: Any) -> None:
        """Call it when a loader has made an iterator."""
        if os.getpid() != self._pid:
            self._forget()
        seen = self._loaders.get(loader)
        if seen is None:
            seen = self._loaders[loader] = _Seen(loader, self._processor_s)
        self._of[iterator] = seen
        self._iterators.add(iterator)

    def next(self, iterator: Any, real: Callable[[], Any]) -> Any:
        """Returns the batch that the job is to get. real: draws the batch of the iterator
        itself."""
        seen = self._of.get(iterator)
        # an iterator from before the watch, or in a worker
        if seen is None or os.getpid() != self._pid:
            return real()
        if seen.number is None:
            seen.number = len(self._all)
            self._all.append(seen)
        self._begin()
        self._end_if_told()
        chosen = seen.number == self._training
        if self._phase == "ingest" and chosen:
            return self._same(iterator, seen, real)
        if self._phase == "prepare" and chosen:
            self._drop(iterator, seen, real)
        return self._passed(iterator, seen, real)

    def _passed(self, iterator: Any, seen: Any, real: Callable[[], Any]) -> Any:
        """Returns the next batch, and records when it was asked for and when it came."""
        asked_s = time.monotonic()
        try:
            batch = real()
        except StopIteration:
            seen.epoch += 1
            raise
        seen.note(asked_s, time.monotonic(), iterator)
        if self._training in (None, seen.number) and seen.has(self._steps):
            self._write()
        return batch

    def _same(self, iterator: Any, seen: Any, real: Callable[[], Any]) -> Any:
        """Returns the first batch again and again, while the loader's workers are stopped."""
        if seen.batch is None:
            seen.batch = real()
        elif len(seen.steps) % max(1, self._steps // _SYNCHRONISED) == 0:
            self._await_device()
        now_s = time.monotonic()
        seen.note(now_s, now_s, None)
        _signal_workers([iterator], signal.SIGSTOP)
        if seen.has(self._steps):
            self._write()
        batch = seen.batch
        return copy.copy(batch) if isinstance(batch, (dict, list)) else batch

    def _drop(self, iterator: Any, seen: Any, real: Callable[[], Any]) -> None:
        """Draws and drops batches until there are enough, over as many epochs as needed. Then waits
        for `stop`."""
        while not self._done:
            try:
                self._passed(iterator, seen, real)
            except StopIteration:
                if not seen.steps:
                    raise
                iterator = iter(seen.loader)
                real = functools.partial(type(iterator).__next__.__wrapped__, iterator)
            self._end_if_told()
        while True:
            time.sleep(_LOOK_EVERY_S)
            self._end_if_told()

    def _processor_s(self) -> float:
        """Returns the processor time, in seconds, of this process and its loaders' workers."""
        own = os.times()
        workers = [worker for each in self._iterators for worker in getattr(each, "_workers", ())]
        took_s = own.user + own.system + own.children_user + own.children_system
        return took_s + sum(_processor_s_of(worker.pid) for worker in workers)

    def _await_device(self) -> None:
        cuda = self._torch.cuda
        if cuda.is_available() and cuda.is_initialized():
            cuda.synchronize()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            atexit.register(self._write)  # if the job ends before its steps are done
            with open(self._name + ".begun", "wb"):
                pass

    def _write(self) -> None:
        """Writes the record of the process, once, and only as a complete file."""
        if self._done or os.getpid() != self._pid or not os.path.isdir(self._directory):
            return
        self._done, self._done_s = True, time.monotonic()
        record = {
            "phase": self._phase,
            "host": socket.gethostname(),
            "pid": self._pid,
            "loaders": [seen.told() for seen in self._all],
        }
        part = self._name + ".part"
        with open(part, "w") as stream:
            json.dump(record, stream)
        os.rename(part, self._name + ".json")

    def _end_if_told(self) -> None:
        now_s = time.monotonic()
        if now_s - self._looked_s < _LOOK_EVERY_S:
            return
        self._looked_s = now_s
        left_alone = self._done and now_s - self._done_s > _PATIENCE_S
        told = os.path.exists(os.path.join(self._directory, "stop"))
        if not told and not left_alone and os.path.isdir(self._directory):
            return
        self._write()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()
        _signal_workers(list(self._iterators), signal.SIGKILL)
        os._exit(0)


class _Seen:
    """The state of one loader. number: its position among the loaders of its process, in the order
    of their first reads."""

    def __init__(self, loader: Any, processor_s: Callable[[], float]) -> None:
        self.loader = loader
        self._processor_s = processor_s
        self._since: Any = None  # processor time and samples at the end of the warm-up
        self._given = 0
        self.number: Any = None
        self.epoch = self._counted = self._in_epoch = 0
        self.batch: Any = None
        # For each batch: when it was asked for, when it came, its number of samples, its epoch.
        self.steps: list[tuple[float, float, int, int]] = []
        size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", 1)
        self._size = int(size) if isinstance(size, int) else 1
        self._workers = int(loader.num_workers)
        self._ahead = self._workers * int(getattr(loader, "prefetch_factor", None) or 2)
        try:
            self._samples = len(loader.sampler)
        except (AttributeError, TypeError):
            self._samples = 0

    def note(self, asked_s: float, came_s: float, iterator: Any) -> None:
        """Records a batch. The last one of an epoch may be short. iterator: None if the job got the
        first batch again."""
        before = (int(getattr(iterator, "_num_yielded", 1)) - 1) * self._size
        left = self._samples - before
        size = min(self._size, left) if left > 0 else self._size
        is_new = not self.steps or self.steps[-1][3] != self.epoch
        self._in_epoch = 1 if is_new else self._in_epoch + 1
        self._counted += self._in_epoch > self._ahead + 1
        self.steps.append((asked_s, came_s, size, self.epoch))
        self._given += size
        if self._since is None or (self._counted == 1 and self._in_epoch == self._ahead + 2):
            self._since = self._processor_s(), self._given

    def has(self, steps: int) -> bool:
        """Returns whether `steps` steps were made, without those at the start of each epoch whose
        batches the loader prepared ahead. With short epochs, four times as many steps in all
        suffice."""
        return self._counted >= steps or len(self.steps) >= 4 * steps + self._ahead

    def told(self) -> LoaderMeasured:
        """Returns the loader's part of a record. processor: processor time in seconds, and the
        samples prepared in it."""
        began_s, before = self._since or (0.0, 0)
        took_s = self._processor_s() - began_s if self._since else 0.0
        return {
            "processor": [took_s, self._given - before],
            "number": self.number,
            "batch": self._size,
            "workers": self._workers,
            "ahead": self._ahead,
            "samples": self._samples,
            "steps": self.steps,
        }


def _processor_s_of(pid: int) -> float:
    """Returns the processor time of another process in seconds; 0 if it has ended (proc(5))."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            user, system = stream.read().rpartition(b")")[2].split()[11:13]
    except (OSError, ValueError):
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _signal_workers(iterators: list[Any], number: int) -> None:
    """Sends a signal to the worker processes of some iterators."""
    for iterator in iterators:
        for worker in getattr(iterator, "_workers", ()):
            with contextlib.suppress(OSError, TypeError):
                os.kill(worker.pid, number)
