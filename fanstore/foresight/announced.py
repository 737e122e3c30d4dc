"""Receives the announcements of a job's loaders and follows their epochs, and the orders that other
readers repeat. NumPy is loaded only with the first of either."""

from __future__ import annotations

import os
import socket
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore.dataset import NO_RECORD, Dataset
from fanstore.foresight.announcement import ORDER_SOCKET, Announcement, received
from fanstore.foresight.sink import Sink
from fanstore.messages.channel import bind, peer_uid
from fanstore.messages.figures import OrderFigures
from fanstore.node.lanes import Lanes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fanstore.foresight.kept import KeptOrders
    from fanstore.foresight.loaders import Loaders
    from fanstore.foresight.recorded import Kept, Recorded
    from fanstore.foresight.sample_files import Learnt, Told
    from fanstore.node.opens import Opens

_PAUSE_S = 0.05  # between two checks, each of which takes 0.2 ms for each loader
_HASTE_S = 0.005  # if an epoch has just begun, or a lane is an eighth full
_IDLE_PAUSE_S = 0.25  # until the following of opens begins
_NOTES_MIN = 64  # noted opens at which the following begins
_LOOK_S = 5.0  # between two checks for processes that have ended
_TELL_S = 1.0  # between two messages to other ranks about the files of samples
_BACKLOG = 128
_REASONS_MAX = 8
_HEARD_MAX = 1 << 16  # the most messages of other ranks that wait to be used
# Kinds of announcements that are no sampler of torch.
_NOT_OF_TORCH = ("announce", "grain", "tf.data")


class Announced:
    """Receives announcements at `listener`, the socket `order` of the job directory.

    mounts: the dataset of each mount, and the spellings of its prefix. sink: receives the expected
    reads. only_torch: listen to torch's loaders alone, and follow no reader that announces nothing.
    keeps: returns the kept orders of earlier jobs, for each mount."""

    def __init__(
        self,
        directory: str,
        mounts: Sequence[tuple[Dataset, Sequence[bytes]]],
        sink: Sink | None = None,
        only_torch: bool = False,
        keeps: Callable[[], Sequence[KeptOrders]] = list,
    ) -> None:
        self._segment = os.path.join(directory, "segment")
        self._doubted = Path(directory, "doubted")
        self._lanes = None if only_torch else Lanes(self._segment)
        self._keeps = keeps
        self._kept: Sequence[KeptOrders] = []
        self._recorded: Recorded | None = None
        self._learnt: Learnt | None = None
        self._mounts = mounts
        self._sink = sink
        self._loaders: Loaders | None = None
        self._opens: Opens | None = None
        self._refused: Counter[str] = Counter()
        self._looked_s = self._told_s = time.monotonic()
        self._heard: deque[Told] = deque(maxlen=_HEARD_MAX)
        # Tells other ranks which files of samples were learnt here.
        self.tell: Callable[[Sequence[Told]], None] | None = None
        self.listener = bind(directory, ORDER_SOCKET, socket.SOCK_SEQPACKET)
        self.listener.listen(_BACKLOG)
        self.listener.setblocking(False)

    def figures(self) -> OrderFigures:
        """Returns counts of predicted epochs and opens. May be called from any thread."""
        sources = [each.figures() for each in (self._loaders, self._recorded) if each is not None]
        return OrderFigures(
            epochs=sum(each.epochs for each in sources),
            predicted=sum(each.predicted for each in sources),
            strange=sum(each.strange for each in sources),
            broken=sum(each.broken for each in sources),
            samplers={name: n for each in sources for name, n in each.samplers.items()},
            refused=dict(self._refused),
            pieces=0 if self._opens is None else self._opens.piece_count,
        )

    def end(self) -> None:
        """Ends all epochs that it follows, and keeps the orders for later jobs."""
        if self._loaders is not None:
            self._loaders.end()
        if self._learnt is not None:
            self._learnt.end()
        if self._recorded is not None:
            orders = self._recorded.end()
            for mount, kept in enumerate(self._kept):
                if mount in orders:
                    kept.add(orders[mount])

    def hear(self) -> bool:
        """Accepts one connection and reads its announcement. Returns whether there was one."""
        try:
            link, _ = self.listener.accept()
        except OSError:  # the peer has ended, or no descriptor is free
            time.sleep(_HASTE_S)
            return False
        with link:
            self._hear(link)
        return True

    def pause_s(self, heard: bool) -> float | None:
        """Returns the seconds until the next check; None: until a process connects. heard: an epoch
        has just begun."""
        if self._opens is not None:
            hasty = heard or 8 * self._opens.most > self._opens.lane_notes
            return _HASTE_S if hasty else _PAUSE_S
        return None if self._lanes is None else _IDLE_PAUSE_S

    def look(self) -> None:
        """Follows the opens since the last call; begins to follow if there are enough opens."""
        if self._loaders is None and self._lanes and self._lanes.noted() >= _NOTES_MIN:
            self._begin()
        self._follow()
        if self._loaders is not None and time.monotonic() > self._looked_s + _LOOK_S:
            self._looked_s = time.monotonic()
            self._loaders.forget(_is_alive)
        self._tell_others()

    def _tell_others(self) -> None:
        if self._learnt is None or self.tell is None or time.monotonic() < self._told_s + _TELL_S:
            return
        self._told_s = time.monotonic()
        told = self._learnt.tell()
        if told:
            self.tell(told)

    def hear_of(self, told: Sequence[Told]) -> None:
        """Takes the files of samples that another rank has learnt. May be called from any
        thread."""
        self._heard.extend(told)

    def _begin(self) -> None:
        """Begins to follow opens; loads NumPy."""
        from fanstore.foresight.loaders import Loaders
        from fanstore.foresight.recorded import Recorded
        from fanstore.foresight.sample_files import Learnt
        from fanstore.node.opens import Opens

        sink = self._sink or Sink()
        datasets = [dataset for dataset, _ in self._mounts]
        self._opens = Opens(self._segment, datasets)
        self._kept = self._keeps()
        files = [each.files for each in self._kept]
        self._learnt = Learnt(datasets, files, self._heard if self.tell is not None else None)
        self._loaders = Loaders(self._find, sink, self._learnt, self._doubted.touch)
        if self._lanes is not None:
            kept: Kept = {mount: each.load() for mount, each in enumerate(self._kept)}
            self._recorded = Recorded(datasets, kept, self._opens.group_of, sink)

    def _follow(self) -> None:
        if self._loaders is None or self._opens is None:
            return
        opened = self._opens.take()
        if self._learnt is not None:
            self._learnt.note(self._opens.tagged.reads())
        self._loaders.note(opened)
        if self._recorded is not None:
            known = self._loaders.processes()
            # Opens of an unknown process may belong to a loader, so they are not recorded.
            self._recorded.note(
                [each for each in opened if not (each[0] & known or (known and not each[0]))]
            )

    def _hear(self, link: socket.socket) -> None:
        """Reads one announcement. Counts errors in it by reason; none of them ends the thread."""
        try:
            if peer_uid(link) == os.getuid():
                with received(link) as said:
                    self._take(said)
        except (OSError, ValueError, OverflowError, MemoryError) as error:
            self._refuse(str(error) or type(error).__name__)
        except Exception as error:
            traceback.print_exception(error, file=sys.stderr)
            self._refuse(f"{type(error).__name__}: {error}")

    def _take(self, said: Announcement | None) -> None:
        if said is not None and said.failed:
            raise ValueError(f"the job's Python: {said.failed}")
        if said is not None and self._lanes is None and said.sampler.get("kind") in _NOT_OF_TORCH:
            raise ValueError("--order torch follows only torch's loaders")
        if self._loaders is None:
            self._begin()
        self._follow()  # opens so far belong to the epoch before
        if said is not None and said.sampler.get("kind") == "again":
            if self._recorded is not None:
                self._recorded.begins(said.pid, said.loader)
        elif said is not None and self._loaders is not None:
            self._loaders.announce(said)

    def _find(self, paths: Any, count: int) -> list[tuple[int, NDArray[np.uint64]]]:
        """Looks paths up in all mounts. Returns (mount, record ids) for the mounts that contain any
        of them."""
        found = []
        for number, (dataset, prefixes) in enumerate(self._mounts):
            for prefix in prefixes:
                ids = dataset.lookup_all(paths, prefix, count)
                if (ids != NO_RECORD).any():
                    found.append((number, ids))
                    break
        return found

    def _refuse(self, reason: str) -> None:
        if reason in self._refused or len(self._refused) < _REASONS_MAX:
            self._refused[reason] += 1


def _is_alive(pid: int) -> bool:
    return pid == 0 or os.path.exists(f"/proc/{pid}")  # 0: in another PID namespace
