"""Predicts the files that a tf.data pipeline will read, and their order. See tensorflow_start.py.

The code follows a pipeline from its end back to the list of paths at its start. Steps on paths
decide the order in which files are read; steps after the reads do not.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fanstore.in_job.told import EpochTold

    # Where a pipeline's paths come from: the dataset that holds the list of paths, the component
    # that is the list, the steps that reorder it, and whether its files were read.
    _Source = tuple[Any, Any, list[list[Any]], bool]

_OWN = 1 << 18  # epochs.py numbers its loaders below this
_DEPTH_MAX = 64
# bounds for the elements in progress, whose number TensorFlow chooses
_AHEAD_MIN, _AHEAD_MAX = 64, 1024
_PARTIAL_MAX = 3  # the first iterators of a cache in memory, which may stop early and cache nothing
_SAME_ORDER = (
    "_MapDataset", "_ParallelMapDataset", "_PrefetchDataset", "_OptionsDataset", "_ZipDataset",
)  # fmt: skip
_BATCHES = ("_BatchDataset", "_ParallelBatchDataset", "_PaddedBatchDataset")
# Operations in the function of a step that read the files whose paths the function gets.
_READING = {
    "ReadFile", "TextLineDataset", "TFRecordDataset", "TFRecordDatasetV2",
    "FixedLengthRecordDataset", "FixedLengthRecordDatasetV2",
}  # fmt: skip
_STEPS = ("shuffle", "take", "skip", "shard", "repeat")


class Pipelines:
    """Watches the iterators of datasets, and announces the reads of each one to the daemon.

    iterators: TensorFlow's iterator module; is_ours: returns whether a path is a file of FanStore;
    teller: sends messages. An error in any of them ends the watching of this process.
    """

    def __init__(self, iterators: Any, is_ours: Callable[[str], bool], teller: Any) -> None:
        self._eager = iterators.context.executing_eagerly
        self._is_ours = is_ours
        self._teller = teller
        self._off = False
        self._pid = os.getpid()
        # shuffle dataset: how many iterators were made of it; -1 if unknown.
        self._rounds: Any = weakref.WeakKeyDictionary()
        self._sources: list[Any] = []
        # cached dataset: how many iterators were made of it, and the steps whose result was cached
        # by the first one; None if they are unknown.
        self._cached: Any = weakref.WeakKeyDictionary()

    def made(self, dataset: Any) -> None:
        """Call it when an iterator of a dataset was made."""
        if self._off:
            return
        try:
            if os.getpid() != self._pid:  # after a fork this process has sent nothing
                self._pid, self._sources = os.getpid(), []
            if self._eager():
                self._tell(dataset)
            else:
                self._lose_count(dataset, 0)
        except Exception as error:
            self._teller.failed(error)
            self._off = True

    def _tell(self, dataset: Any) -> None:
        found = self._found(dataset, 0)
        if found is None:
            self._teller.again(self._number(dataset)[0])
            return
        source, column, steps, _ = found
        count = int(column.shape[0])
        number, known = self._number(source)
        message: EpochTold = {
            "loader": number, "dataset": number, "workers": 0, "prefetch_factor": 1,
            "in_order": True, "files_per_sample": 1,
            "sampler": {
                "kind": "tf.data", "samples": count, "steps": steps, "drop_last": False,
                "batch": max(_AHEAD_MIN, min(_AHEAD_MAX, count // 16)),
            },
        }  # fmt: skip
        self._teller.tell(message, {} if known else {"paths": [_joined(column)]})

    def _number(self, source: Any) -> tuple[int, bool]:
        """Returns the number of a list of paths, and whether the list had this number before: then
        its paths need not be sent again."""
        for number, reference in enumerate(self._sources):
            if reference() is source:
                return _OWN + number, True
        self._sources.append(weakref.ref(source))
        return _OWN + len(self._sources) - 1, False

    def _found(self, dataset: Any, depth: int) -> _Source | None:
        """Returns the source of a pipeline's paths and the steps that reorder them. Returns None if
        it reads no list of paths, or if the order cannot be predicted."""
        kind = type(dataset).__name__
        if kind == "_TensorSliceDataset":
            return self._listed(dataset)
        if depth > _DEPTH_MAX:
            return None
        inputs = [dataset._impl] if hasattr(dataset, "_impl") else dataset._inputs()
        found = [self._found(each, depth + 1) for each in inputs]
        # Also counts the iterator of a shuffle whose pipeline reads no list of paths.
        step = self._shuffled(dataset) if kind == "_ShuffleDataset" else _step(dataset, kind)
        there = [each for each in found if each is not None]
        if len(there) != 1:
            return None
        source, column, steps, is_read = there[0]
        if kind == "CacheDataset":
            return self._of_cache(dataset, there[0])
        if not is_read and _reads(dataset):
            return source, column, steps, True
        of_paths = not is_read and any(map(_has_text, inputs))
        if not of_paths and (not step or step[0] != "repeat"):
            return there[0] if is_read or step is not None else None
        if not step:
            return None if step is None else there[0]
        if step[0] not in _STEPS:
            return None
        return source, column, [*steps, step], is_read

    def _of_cache(self, dataset: Any, found: _Source) -> _Source | None:
        """Returns what is read through a cache. A pipeline goes through the steps before it until
        one iterator came to its end; if these read the files, later iterators read none."""
        source, column, steps, is_read = found
        stored = os.fsdecode(dataset._filename.numpy())
        is_stored = bool(stored) and os.path.exists(stored + ".index")
        made, first = self._cached.get(dataset, (0, None if is_stored else steps))
        self._cached[dataset] = made + 1, first
        if is_read:
            is_whole = is_stored if stored else made >= _PARTIAL_MAX
            return None if is_whole else found
        return None if first is None else (source, column, first, False)

    def _listed(self, dataset: Any) -> _Source | None:
        """Returns a slice dataset as a source, if one of its components is a list of paths of
        FanStore's files; otherwise None."""
        for column in dataset._tensors:
            if column.dtype.name == "string" and len(column.shape) == 1 and column.shape[0]:
                ends = (os.fsdecode(column[at].numpy()) for at in (0, -1))
                if all(map(self._is_ours, ends)):
                    return dataset, column, [], False
        return None

    def _shuffled(self, dataset: Any) -> list[Any]:
        """Returns the step of a shuffle, for the iterator that was just made. Counts that
        iterator."""
        before = self._rounds.get(dataset, 0)
        seeds = [int(each.numpy()) for each in (dataset._seed, dataset._seed2)]
        if before < 0 or not any(seeds):
            return ["chance"]
        self._rounds[dataset] = before + 1
        again = bool(dataset._reshuffle_each_iteration)
        return ["shuffle", int(dataset._buffer_size.numpy()), *seeds, again, before]

    def _lose_count(self, dataset: Any, depth: int) -> None:
        """Marks the counts of a pipeline's shuffles as unknown, because a graph may make any number
        of iterators."""
        if type(dataset).__name__ == "_ShuffleDataset":
            self._rounds[dataset] = -1
        for each in dataset._inputs() if depth < _DEPTH_MAX else ():
            self._lose_count(each, depth + 1)


def _step(dataset: Any, kind: str) -> list[Any] | None:
    """Returns how a dataset reorders its elements, as a step: [] if it does not, None if that is
    unknown."""
    if kind in _SAME_ORDER:
        return []
    if kind in _BATCHES:
        return ["batch"]
    if kind in ("_TakeDataset", "_SkipDataset", "_RepeatDataset"):
        return [kind[1:-7].lower(), int(dataset._count.numpy())]
    if kind == "_ShardDataset":
        return ["shard", int(dataset._num_shards.numpy()), int(dataset._index.numpy())]
    return None


def _reads(dataset: Any) -> bool:
    """Returns whether a step reads the files whose paths it gets."""
    for each in dataset._functions():
        graph = each.function.graph.as_graph_def()
        parts = [graph.node, *(function.node_def for function in graph.library.function)]
        if any(node.op in _READING for part in parts for node in part):
            return True
    return False


def _has_text(dataset: Any) -> bool:
    """Returns whether a dataset's elements contain strings, which may be paths."""
    specs = [dataset.element_spec]
    while specs:
        spec = specs.pop()
        if isinstance(spec, (tuple, list)):
            specs += spec
        elif isinstance(spec, dict):
            specs += spec.values()
        elif getattr(getattr(spec, "dtype", None), "name", "") == "string":
            return True
    return False


def _joined(column: Any) -> bytes:
    """Returns the full paths of a list, a NUL after each."""
    paths = column.numpy().tolist()
    if any(not path.startswith(b"/") for path in paths):
        here = os.getcwdb()
        paths = [os.path.join(here, path) for path in paths]
    return b"\0".join(paths) + b"\0"
