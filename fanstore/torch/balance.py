"""Moves workers between epochs to those ranks of a node whose programs wait for batches."""

from __future__ import annotations

import os
import statistics
import sys
from dataclasses import dataclass
from typing import Any

from torch import distributed

from fanstore.errors import UsageError
from fanstore.torch.loader import DataLoader
from fanstore.torch.samplers.base import is_distributed
from fanstore.torch.sharing import Rank, shared


@dataclass(frozen=True)
class _WorkerFigures:
    """The figures that one rank sends to the others."""

    node: str
    bounds: tuple[int, int, int]
    work_s: dict[int, float]
    train_s: float


class WorkerBalance:
    """Gives the loader of each rank as many workers as its batches need, after Lobster (Liu et al.,
    ICPP 2022, section 4).

    loader: a fanstore.torch.DataLoader with 1 worker or more. least, most: bounds of its
    num_workers; total: how many all ranks of the node have together, by default the present number.
    All ranks give the same bounds. group: the process group of the ranks, by default torch's, if
    there is one. Raises UsageError for bounds that contradict each other.
    """

    def __init__(
        self,
        loader: DataLoader,
        *,
        least: int = 1,
        most: int | None = None,
        total: int | None = None,
        group: Any = None,
    ) -> None:
        most = os.cpu_count() or 1 if most is None else most
        if not 1 <= least <= loader.num_workers <= most:
            raise UsageError(
                f"least, num_workers and most are {least}, {loader.num_workers} and {most}; "
                "allowed is 1 or more, rising"
            )
        self._loader = loader
        self._group = group
        self._work_s: dict[int, float] = {}
        self._node = _node()
        ranks = self._gathered((self._node, loader.num_workers))
        together = sum(count for node, count in ranks if node == self._node)
        self._bounds = least, most, together if total is None else total

    def adapt(self) -> int:
        """Sets the number of workers of the next epoch, from the times of the epochs before, and
        returns it; prints a change on stderr. All ranks call it together, between epochs. Changes
        nothing unless each rank of the node has measured a batch. Raises UsageError if the ranks of
        a node have different bounds."""
        work_s, train_s = self._loader.take_times()
        had = self._loader.num_workers
        if work_s:
            self._work_s[had] = statistics.fmean(work_s)
        mine = _WorkerFigures(
            self._node, self._bounds, self._work_s, statistics.median(train_s) if train_s else 0.0
        )
        told = self._gathered(mine)
        here = [rank for rank, figures in enumerate(told) if figures.node == self._node]
        if any(told[rank].bounds != self._bounds for rank in here):
            raise UsageError("the ranks of this node were given other bounds each")
        if not all(told[rank].work_s for rank in here):
            return had
        ranks = [Rank(told[rank].work_s, told[rank].train_s) for rank in here]
        own = here.index(self._rank())
        count = shared(ranks, *self._bounds)[own]
        if count != had:
            self._loader.set_workers(count)
            print(
                f"fanstore: rank {self._rank()}: {count} workers instead of {had}: a batch is "
                f"ready every {ranks[own].batch_s(had):.3g} s, now expected every "
                f"{ranks[own].batch_s(count):.3g} s, and trained in {mine.train_s:.3g} s",
                file=sys.stderr,
            )
        return count

    def _rank(self) -> int:
        return int(distributed.get_rank(self._group)) if is_distributed() else 0

    def _gathered(self, mine: Any) -> list[Any]:
        """Returns the values of all ranks, in the order of the ranks."""
        if not is_distributed():
            return [mine]
        told: list[Any] = [None] * distributed.get_world_size(self._group)
        distributed.all_gather_object(told, mine, group=self._group)
        return told


def _node() -> str:
    """Returns a name that identifies this machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read().strip()
