"""Watches the iterators of tf.data. See start.py."""

from __future__ import annotations

import sys
from typing import Any

_wrapped: Any = globals()["wrapped"]  # of python_hook.c


def _watch(iterators: Any, pipelines: Any, streams: Any, teller: Any) -> None:
    """Wraps the iterators of tf.data, so that each passes its dataset to `pipelines` once it is
    made. An iterator reads nothing before it is asked for an element. Also wraps the function that
    returns the Python iterator of a `from_generator` for each element, so that it calls
    `streams`."""
    watched: list[Any] = []

    def drawing(iterator: Any, self: Any, number: Any) -> None:
        try:
            streams.drawing(iterator, self, int(number), self, "tf.data")
        except Exception as error:
            teller.failed(error)

    def watch_generators() -> None:
        # This module is loaded after the one of iterators.
        watched.append(sys.modules["tensorflow.python.data.ops.dataset_ops"])
        state = watched[0].DatasetV2._GeneratorState
        state.get_iterator = _wrapped(state.get_iterator, None, drawing, False)

    def made(_: None, self: Any, dataset: Any = None, *args: Any, **kwargs: Any) -> None:
        try:
            if not watched:
                watch_generators()
        except Exception as error:
            teller.failed(error)
        if dataset is not None:
            pipelines.made(dataset)

    iterators.OwnedIterator.__init__ = _wrapped(iterators.OwnedIterator.__init__, None, made, False)


def watch(teller: Any) -> None:
    """Makes tf.data tell in which order it reads; start.py calls this once."""
    load_part, last_opened = globals()["load_part"], globals()["last_opened"]
    iterators = sys.modules["tensorflow.python.data.ops.iterator_ops"]
    names = "rows.py", "files.py", "shards.py", "epochs.py"
    rows, files, shards, numbers = map(load_part, names)
    streams = load_part("streams.py").Streams(
        rows, files, shards, numbers.number_in, "announce", teller, last_opened
    )
    pipelines = load_part("tensorflow_pipelines.py").Pipelines(iterators, files.is_ours, teller)
    _watch(iterators, pipelines, streams, teller)
