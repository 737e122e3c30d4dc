"""Staging while the job runs (--stage lazy).

Each rank copies the packs that it owns from the shared file system; until one is there it is read
where it lies, and so is what does not fit. No replicas are made, not even of packs for every rank:
nothing travels over MPI, which belongs to the transport's thread by then.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fanstore.dataset import Dataset, pack_name
from fanstore.errors import FanstoreError
from fanstore.load.room import size
from fanstore.load.stage import Stager, StageReport
from fanstore.load.staged import StagedDirectory
from fanstore.load.stopping import Stop, Stopped

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class LazyPart:
    """What is to be staged for one mount: packs in order, and the report that it goes into."""

    mount: int
    dataset: Dataset
    staged: StagedDirectory
    packs: Sequence[int]
    report: StageReport


class _StopOnly(Stop):
    """A Watcher that only stops: nobody watches how far the work is."""

    def advance(self, amount_bytes: int) -> None:
        pass


class LazyStager:
    """Threads that stage while the job runs. They call `on_staged(mount, pack, damaged)` for one
    pack at a time.

    A pack that cannot be staged stays where it is, and `warnings` says so; nothing is raised.
    """

    def __init__(
        self,
        parts: Sequence[LazyPart],
        threads: int,
        on_staged: Callable[[int, int, list[int]], None],
    ) -> None:
        self._stop = _StopOnly()
        stagers = [Stager(part.dataset, self._stop, part.report) for part in parts]
        self._todo = deque(
            (part, stager, pack)
            for part, stager in zip(parts, stagers, strict=True)
            for pack in part.packs
        )
        self._on_staged = on_staged
        self._mutex = threading.Lock()
        self._problems: list[str] = []
        self._left: dict[str, list[int]] = {}
        count = min(max(1, threads), len(self._todo))
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]

    def start(self) -> None:
        """Starts the threads."""
        for thread in self._threads:
            thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Waits for the threads for at most `timeout_s`; tells whether all have ended."""
        deadline_s = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def close(self, timeout_s: float = 10.0) -> bool:
        """Stops the threads between two chunks; `on_staged` is not called any more. Tells whether
        all have ended: one may hang in a read of a shared file system that does not answer."""
        self._stop.set()
        with self._mutex:
            self._todo.clear()
        return self.wait(timeout_s)

    @property
    def warnings(self) -> list[str]:
        """What was not staged and why, a line each."""
        with self._mutex:
            full = [
                f"{path}: the disk is full: {len(sizes)} packs ({size(sum(sizes))}) stay on the "
                "shared file system"
                for path, sizes in self._left.items()
            ]
            return self._problems + full

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                part, stager, pack = self._todo.popleft()
            except IndexError:
                return
            self._stage(part, stager, pack)

    def _stage(self, part: LazyPart, stager: Stager, pack: int) -> None:
        try:
            if not self._has_room(part, stager, pack):
                return
            damaged = stager.stage_pack(part.staged, pack)
        except Stopped:
            return
        except (FanstoreError, OSError) as error:
            self._excuse(part, stager, pack, error)
            return
        with self._mutex:
            if not self._stop.is_set():
                self._on_staged(part.mount, pack, damaged)

    def _has_room(self, part: LazyPart, stager: Stager, pack: int) -> bool:
        """Tells whether a pack still fits. Asked anew for each, as outputs and other users fill the
        disk meanwhile."""
        expected = stager.expected(pack)
        space = os.statvfs(part.staged.path)
        if expected.file_bytes <= space.f_bavail * space.f_frsize:
            return True
        if part.staged.damaged_in(pack_name(pack), expected) is not None:
            return True  # another job has staged it here
        self._leave(part, expected.file_bytes)
        return False

    def _excuse(
        self, part: LazyPart, stager: Stager, pack: int, error: FanstoreError | OSError
    ) -> None:
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            self._leave(part, stager.expected(pack).file_bytes)
            return
        path = os.fspath(part.dataset.pack_path(pack))
        with self._mutex:
            self._problems.append(f"{path}: not staged: {error}")

    def _leave(self, part: LazyPart, needed_bytes: int) -> None:
        with self._mutex:
            self._left.setdefault(part.staged.path, []).append(needed_bytes)
