"""Reading stretches into memory by a thread, before the samples of each are drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

_DEADLINE_S = 300.0


class Filling:
    """Calls `read` with each stretch in order, one ahead of those that are wanted."""

    def __init__(self, read: Callable[[range], None], stretches: Sequence[range]) -> None:
        self._read, self._stretches = read, stretches
        self._changed = threading.Condition()
        self._wanted = self._done = 0
        self._ending = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="fanstore-stretches", daemon=True)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Waits until the first `count` stretches are in memory. Raises what `read` raised,
        TimeoutError where one takes more than 300 s, and RuntimeError after `end`."""
        with self._changed:
            self._wanted = max(self._wanted, count)
            self._changed.notify_all()
            while self._done < count and self._error is None:
                if self._ending:
                    raise RuntimeError("a later iteration of the sampler has taken its memory")
                if not self._changed.wait(_DEADLINE_S):
                    stretch = self._stretches[self._done]
                    raise TimeoutError(
                        f"samples {stretch.start} to {stretch.stop - 1} did not come to memory "
                        f"within {_DEADLINE_S:.0f} s"
                    )
            if self._done < count and self._error is not None:
                raise self._error

    def end(self) -> None:
        """Ends the thread behind the stretch that it is at."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(_DEADLINE_S)

    def _run(self) -> None:
        for number, stretch in enumerate(self._stretches):
            with self._changed:
                while number > self._wanted and not self._ending:
                    self._changed.wait()
                if self._ending:
                    return
            try:
                self._read(stretch)
            except Exception as error:  # whoever waits for it raises it
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._done = number + 1
                self._changed.notify_all()
