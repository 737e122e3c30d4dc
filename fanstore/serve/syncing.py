"""Has what a job keeps in part written to the disk at its end, for after a reboot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from fanstore.load.staged import StagedDirectory


class Sync:
    """Writes partial packs to the disk in a thread, which is left alone where the disk hangs."""

    def __init__(self, staged: Sequence[StagedDirectory], wake: Callable[[], None]) -> None:
        """wake: called when all is written, by the thread."""
        self._staged = staged
        self._wake = wake
        self._problems: list[str] = []
        self._thread = threading.Thread(target=self._run, name="fanstore-sync", daemon=True)

    def start(self) -> None:
        """Begins; to be called once."""
        self._thread.start()

    def is_done(self) -> bool:
        """Tells whether all is written, or cannot be."""
        return not self._thread.is_alive()

    def problems(self) -> list[str]:
        """Returns what could not be written, a line each."""
        return list(self._problems)

    def _run(self) -> None:
        for staged in self._staged:
            try:
                staged.sync()
            except OSError as error:
                self._problems.append(
                    f"{staged.path}: {error.strerror}: what is kept of partial packs there is not "
                    "on the disk, and the next job brings it again"
                )
        self._wake()
