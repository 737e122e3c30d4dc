"""Follows a command through the order that its user named: a thread of the daemon."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator, Mapping

from fanstore.arrays import np
from fanstore.foresight.followed import Course, figures_of
from fanstore.foresight.loaders import side_by_side
from fanstore.foresight.order.follow import Expected
from fanstore.foresight.sink import Sink
from fanstore.messages.figures import OrderFigures
from fanstore.node.opens import Opens

_LOOK_S = 0.05  # a look takes 1 ms
_IDLE_LOOK_S = 0.2  # if nothing was opened for a while
_IDLE_LOOKS = 50
_END_WAIT_S = 20.0


class Planned:
    """Follows all opens on this node. epochs: by the number of the mount. source: how figures name
    the origin of the order, "" for the file of --order."""

    def __init__(
        self,
        segment: str,
        epochs: Mapping[int, Iterator[Expected]],
        sink: Sink,
        source: str = "",
    ) -> None:
        """Raises OSError if the sink cannot take the epochs."""
        self._source = source
        self._opens = Opens(segment)
        self._courses = {
            mount: Course(sink, each, is_taken_up=True) for mount, each in epochs.items()
        }
        self._problem = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fanstore-order", daemon=True)

    def start(self) -> None:
        """Starts the thread that follows the opens."""
        self._thread.start()

    def stop(self) -> None:
        """Tells the thread to take a last look at the opens and end, and waits for it for a limited
        time."""
        self._stopping.set()
        self._thread.join(_END_WAIT_S)

    def figures(self) -> OrderFigures:
        """Returns counts, as Announced.figures does."""
        counts = sum((each.counts() for each in self._courses.values()), np.zeros(4, np.int64))
        refused = {self._problem: 1} if self._problem else {}
        return figures_of(counts, self._source, refused)

    def _run(self) -> None:
        quiet = 0
        try:
            while not self._stopping.wait(_LOOK_S if quiet < _IDLE_LOOKS else _IDLE_LOOK_S):
                quiet = 0 if self._look() else quiet + 1
            self._look()
        except Exception as error:  # the job goes on without the order
            traceback.print_exception(error, file=sys.stderr)
            self._problem = f"{type(error).__name__}: {error}"
        for course in self._courses.values():
            course.end()

    def _look(self) -> bool:
        """Follows the opens since the last look. Returns whether there were any."""
        found = self._opens.take()
        for mount, course in self._courses.items():
            parts = [by_mount[mount] for _, by_mount in found if mount in by_mount]
            if parts:
                course.note(side_by_side(parts))
        return bool(found)
