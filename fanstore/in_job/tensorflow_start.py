"""Starts watching the iterators of tf.data. csrc/preload/loading/python_hook.c runs this file in a
job's Python as soon as TensorFlow's iterator module is loaded. The rules of start.py hold."""

from __future__ import annotations

import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
# Functions of python_hook.c.
wrapped: Any = globals()["wrapped"]
load_part: Any = globals()["load_part"]
calls: Any = globals()["send"], globals()["seal"]


def _watch(iterators: Any, pipelines: Any, streams: Any) -> None:
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
        state.get_iterator = wrapped(state.get_iterator, None, drawing, False)

    def made(_: None, self: Any, dataset: Any = None, *args: Any, **kwargs: Any) -> None:
        try:
            if not watched:
                watch_generators()
        except Exception as error:
            teller.failed(error)
        if dataset is not None:
            pipelines.made(dataset)

    iterators.OwnedIterator.__init__ = wrapped(iterators.OwnedIterator.__init__, None, made, False)


def _start() -> None:
    try:
        iterators = sys.modules["tensorflow.python.data.ops.iterator_ops"]
        names = "rows.py", "files.py", "shards.py", "epochs.py"
        rows, files, shards, numbers = map(load_part, names)
        if sys.version_info >= (3, 10):
            rows.get_referents = globals()["referents"]
        new_streams = load_part("streams.py").Streams
        last_opened = globals()["last_opened"]
        streams = new_streams(
            rows, files, shards, numbers.number_in, "announce", teller, last_opened
        )
        pipelines = load_part("tensorflow_pipelines.py").Pipelines(iterators, files.is_ours, teller)
        _watch(iterators, pipelines, streams)
        teller.began()
    except Exception as error:
        teller.failed(error)


teller = load_part("teller.py").Teller(os.path.dirname(_HERE), calls)
begun = True  # tells python_hook.c that later exceptions are the job's own
_start()
