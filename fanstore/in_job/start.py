"""Starts to watch torch's DataLoader. csrc/preload/loading/python_hook.c runs this file in a job's
Python as soon as torch.utils.data.dataloader is loaded, in a namespace that belongs to no module.

The job must not be affected: this code advances no generator and keeps nothing alive or open. It
reports a failure once, to the daemon and not to the job."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
# Functions of python_hook.c.
note_sample: Any = globals()["note_sample"]
wrapped: Any = globals()["wrapped"]
last_opened: Any = globals()["last_opened"]
load_part: Any = globals()["load_part"]
calls: Any = globals()["send"], globals()["seal"]


def _watch(loader_module: Any, epochs: Any) -> None:
    """Wraps DataLoader iterators, so that each calls `epochs` when it is made, and before and after
    it draws indices."""
    iterator = loader_module._BaseDataLoaderIter

    def made(_: None, self: Any, loader: Any) -> None:
        epochs.made(self, loader)

    def drawn(indices: Any, self: Any) -> None:
        epochs.drawn(self, indices)

    iterator.__init__ = wrapped(iterator.__init__, None, made, False)
    iterator._next_index = wrapped(iterator._next_index, epochs.drawing, drawn, True)


def _watch_samples(fetcher: Any, tags: Any) -> None:
    """Wraps torch's fetcher, so that it calls `tags` before and after each read, in the process
    that reads."""

    def told(self: Any, possibly_batched_index: Any) -> tuple[Any, Any]:
        return self, tags.told(self, possibly_batched_index)

    def read(_: Any, self: Any, possibly_batched_index: Any) -> None:
        tags.read(self)

    fetcher.fetch = wrapped(fetcher.fetch, told, read, True)


def _watch_streams(fetcher: Any, streams: Any, noted: Any) -> None:
    """Wraps torch's fetcher of IterableDatasets, so that it calls `streams` before each sample, in
    the process that reads."""

    def told(self: Any, possibly_batched_index: Any) -> tuple[Any, Any] | None:
        def note(_: Any) -> None:
            streams.drawing(self.dataset_iter, self, 0, self.dataset, type(self.dataset).__name__)

        if type(possibly_batched_index) is list:
            return self, noted(possibly_batched_index, note)
        note(None)
        return None

    fetcher.fetch = wrapped(fetcher.fetch, told, lambda *_: None, False)


def _measure(loader_module: Any, stages: Any) -> None:
    """Wraps DataLoader iterators, so that `stages` decides which batch each returns."""
    iterator = loader_module._BaseDataLoaderIter
    made, following = iterator.__init__, iterator.__next__

    @functools.wraps(made)
    def __init__(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        made(self, loader, *args, **kwargs)
        stages.made(self, loader)

    @functools.wraps(following)
    def __next__(self: Any) -> Any:
        return stages.next(self, functools.partial(following, self))

    iterator.__init__, iterator.__next__ = __init__, __next__


def _start() -> None:
    try:
        torch = sys.modules["torch"]
        data = sys.modules["torch.utils.data"]
        loader_module = sys.modules["torch.utils.data.dataloader"]
        if "FANSTORE_ANALYZE" in os.environ:
            asked = json.loads(os.environ["FANSTORE_ANALYZE"])
            _measure(loader_module, load_part("stages.py").Stages(asked, torch))
        rows, files, tags_part, epochs = map(
            load_part, ("rows.py", "files.py", "tags.py", "epochs.py")
        )
        if sys.version_info >= (3, 10):
            rows.get_referents = globals()["referents"]
        sampler_of = functools.partial(load_part("samplers.py").described, torch)
        draws_of = functools.partial(load_part("draws.py").Draws, rows)
        files_of = functools.partial(files.paths_of, data)
        doubted = os.path.join(os.path.dirname(_HERE), "doubted")
        tags = tags_part.Tags(note_sample, files_of, of_a_handler, doubted)
        _watch(loader_module, epochs.Epochs(sampler_of, draws_of, files_of, tags, teller))
        _watch_samples(data._utils.fetch._MapDatasetFetcher, tags)
        streams = load_part("streams.py").Streams(
            rows, files, load_part("shards.py"), epochs.number_in, "stream", teller, last_opened
        )
        _watch_streams(data._utils.fetch._IterableDatasetFetcher, streams, tags_part.Noted)
        teller.began()
    except Exception as error:
        teller.failed(error)


part = load_part("teller.py")
teller, of_a_handler = part.Teller(os.path.dirname(_HERE), calls), part.of_a_handler
begun = True  # tells python_hook.c that later exceptions are the job's own
_start()
