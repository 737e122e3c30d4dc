"""Follows a command through the order that its user has named."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

from fanstore.arrays import np
from fanstore.foresight.followed import Course, figures_of
from fanstore.foresight.loaders import side_by_side
from fanstore.foresight.order.follow import Expected
from fanstore.foresight.sink import Sink
from fanstore.messages.figures import OrderFigures
from fanstore.node.opens import Opens

_PAUSE_S = 0.05  # between two looks at the opens, of which each takes 1 ms
_IDLE_PAUSE_S = 0.2  # if nothing was opened for a while
_IDLE_LOOKS = 50


class Planned:
    """Follows all opens on this node. epochs: by the number of the mount."""

    listener: socket.socket | None = None

    def __init__(
        self,
        segment: str,
        epochs: Mapping[int, Iterator[Expected]],
        sink: Sink,
    ) -> None:
        """Raises OSError if the sink cannot take the epochs."""
        self._opens = Opens(segment)
        self._courses = {
            mount: Course(sink, each, is_taken_up=True) for mount, each in epochs.items()
        }
        self._quiet = 0  # how many looks found no open

    def figures(self) -> OrderFigures:
        """Returns counts like Announced.figures."""
        counts = sum((each.counts() for each in self._courses.values()), np.zeros(4, np.int64))
        return figures_of(counts, "")

    def hear(self) -> bool:
        """Returns False, because no process connects."""
        return False

    def pause_s(self, heard: bool) -> float:
        """Returns the seconds until the next call of `look`."""
        return _PAUSE_S if self._quiet < _IDLE_LOOKS else _IDLE_PAUSE_S

    def look(self) -> None:
        """Follows the opens since the last call."""
        found = self._opens.take()
        self._quiet = 0 if found else self._quiet + 1
        for mount, course in self._courses.items():
            parts = [by_mount[mount] for _, by_mount in found if mount in by_mount]
            if parts:
                course.note(side_by_side(parts))

    def end(self) -> None:
        """Ends all epochs. The counts stay."""
        for course in self._courses.values():
            course.end()
