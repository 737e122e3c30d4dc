"""Predicts the files that an iterator of grain will read, and their order: follows its steps back
to the data source. See grain_start.py."""

from __future__ import annotations

import itertools
import os
import types
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fanstore.in_job.told import EpochTold

_OWN = 3 << 17  # epochs.py, streams.py and tensorflow_pipelines.py number their loaders below this
_NO_TORCH = types.SimpleNamespace(Subset=(), ConcatDataset=())  # for files.py
_SAME_ORDER = (
    "MapMapDataset", "MapWithIndexMapDataset", "RandomMapMapDataset", "FilterMapDataset",
    "WithOptionsMapDataset", "SourceMapDataset",
)  # fmt: skip


class Pipelines:
    """Watches the iterators that read from data sources, and announces the reads of each to the
    daemon. files: the module files.py; number_in: numbers things, as in epochs.py; teller: sends
    messages. An error in any of them ends the watching of this process."""

    def __init__(self, files: Any, number_in: Callable[..., Any], teller: Any) -> None:
        self._files = files
        self._number_in = number_in
        self._teller = teller
        self._off = False
        self._pid = -1
        self._sources: list[Any] = []
        self._seen: Any = weakref.WeakSet()  # iterators whose reads were announced

    def drawing(self, iterator: Any) -> None:
        """Call it when an iterator is about to be asked for an element. (A process makes iterators
        for its workers, too, and does not ask them.)"""
        if self._off or iterator in self._seen:
            return
        try:
            if os.getpid() != self._pid:  # after a fork this process has sent nothing
                self._pid, self._sources = os.getpid(), []
            self._seen.add(iterator)
            steps: list[list[Any]] = []
            source = _followed(iterator._map_parent, steps)
            if source is not None:
                self._tell(source, steps[::-1], iterator._read_options.prefetch_buffer_size)
        except Exception as error:
            self._teller.failed(error)
            self._off = True

    def _tell(self, source: Any, steps: list[list[Any]], ahead: int) -> None:
        """Announces the reads of a source, in the order after some steps."""
        data = source._source
        if type(data) in (list, tuple):
            columns = self._files.columns_in({"": data}, len(data))
        else:
            of_source = itertools.takewhile(lambda step: step[0] != "repeat", steps)
            least = max([1, *(step[1] for step in of_source if step[0] == "take")])
            columns = self._files.columns_of(_NO_TORCH, data, lambda _: None, least)
        if not columns:
            name = type(data).__name__
            self._teller.say(f"{name} has no list of paths; it can announce them (fanstore.order)")
            return
        number, known = self._number_in(self._sources, source)
        message: EpochTold = {
            "loader": _OWN + number, "dataset": _OWN + number, "workers": 0, "prefetch_factor": 1,
            "in_order": True, "files_per_sample": len(columns),
            "sampler": {
                "kind": "grain", "samples": len(columns[0][0]), "steps": steps, "drop_last": False,
                "batch": max(1, ahead), "is_last": any(step[0] == "repeat" for step in steps),
            },
        }  # fmt: skip
        self._teller.tell(message, {} if known else {"paths": self._files.joined(columns)})


def _followed(dataset: Any, steps: list[list[Any]]) -> Any:
    """Appends the steps that reorder a source, the last one first, and returns the source; None if
    the order cannot be predicted."""
    while True:
        kind = type(dataset).__name__
        if kind == "SourceMapDataset" and not hasattr(dataset._source, "_parents"):
            return dataset
        if kind == "SliceMapDataset":
            steps += [
                ["shard", dataset._step, 0],
                ["skip", dataset._start],
                ["take", dataset._stop],
            ]
        elif kind == "ShuffleMapDataset":
            steps.append(["index_shuffle", dataset._seed])
        elif kind == "RepeatMapDataset" and dataset._reseed_each_epoch:
            steps.append(["repeat", dataset._num_epochs or -1])
        elif kind == "_SamplerMapDataset" and type(dataset._sampler).__name__ == "IndexSampler":
            _of_sampler(dataset, steps)
        elif kind == "BatchMapDataset" and steps:
            return None  # those are steps of batches
        elif kind not in (*_SAME_ORDER, "BatchMapDataset"):
            return None
        dataset = dataset._source if kind == "SourceMapDataset" else dataset._parent


def _of_sampler(dataset: Any, steps: list[list[Any]]) -> None:
    """Appends the steps of an IndexSampler: those of a shard, which is a part of the records."""
    sampler = dataset._sampler
    steps += [["take", dataset.length], ["repeat", -1]]
    if sampler._shuffle:
        steps.append(["index_shuffle", sampler._seed])
    records = sampler._record_keys
    while records._parents and not hasattr(records, "_end"):
        records = records._parents[0]
    if hasattr(records, "_end"):
        steps += [["skip", records._start], ["take", records._end]]
