"""Watches torch's DataLoader: wraps functions of torch. See start.py."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import Any

# Functions of python_hook.c.
note_sample: Any = globals()["note_sample"]
wrapped: Any = globals()["wrapped"]
last_opened: Any = globals()["last_opened"]
load_part: Any = globals()["load_part"]


def _watch(loader_module: Any, epochs: Any, lengths: Any) -> None:
    """Wraps DataLoader iterators, so that each calls `epochs` when it is made, and before and after
    it draws indices; and `len` of torch's modules, so that it calls `lengths`."""
    iterator = loader_module._BaseDataLoaderIter
    told = wrapped(len, None, lengths.note, False)
    _watch_lengths(told)

    def made(_: None, self: Any, loader: Any) -> None:
        _watch_lengths(told)
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


def _watch_lengths(told: Any) -> None:
    """Puts `told` in place of `len` in those modules of torch that ask datasets for their lengths
    and are loaded."""
    for name in ("dataset", "distributed", "sampler"):
        module = sys.modules.get(f"torch.utils.data.{name}")
        if module is not None and "len" not in vars(module):
            module.len = told  # type: ignore[attr-defined]


def watch(teller: Any) -> None:
    """Makes torch's loaders tell in which order they read; start.py calls this once."""
    torch = sys.modules["torch"]
    data = sys.modules["torch.utils.data"]
    loader_module = sys.modules["torch.utils.data.dataloader"]
    if "FANSTORE_ANALYZE" in os.environ:
        asked = json.loads(os.environ["FANSTORE_ANALYZE"])
        _measure(loader_module, load_part("stages.py").Stages(asked, torch))
    names = "rows.py", "files.py", "arrow.py", "tags.py", "epochs.py", "lengths.py", "teller.py"
    rows, files, arrow, tags_part, epochs, lengths_part, tellers = map(load_part, names)
    lengths = lengths_part.Lengths()
    samplers = load_part("samplers.py")
    sampler_of = functools.partial(samplers.described, torch)
    seed_of = functools.partial(samplers.seed_drawn, torch, rows)
    draws_of = functools.partial(load_part("draws.py").Draws, rows)

    def files_of(dataset: Any, least: int) -> Any:
        return files.paths_of(data, dataset, lengths.of, least)

    def ranges_of(dataset: Any) -> Any:
        try:
            return arrow.ranges_of(data, dataset, files, lengths.of)
        except Exception as error:  # another version of the libraries, or a table like no other
            if tellers.of_a_handler(error):
                raise
            return None

    doubted = os.path.join(teller.directory, "doubted")
    tags = tags_part.Tags(note_sample, files_of, tellers.of_a_handler, doubted)
    watched = epochs.Epochs(
        sampler_of, draws_of, files_of, ranges_of, lengths.of, seed_of, tags, teller
    )
    _watch(loader_module, watched, lengths)
    _watch_samples(data._utils.fetch._MapDatasetFetcher, tags)
    streams = load_part("streams.py").Streams(
        rows, files, load_part("shards.py"), epochs.number_in, "stream", teller, last_opened
    )
    _watch_streams(data._utils.fetch._IterableDatasetFetcher, streams, tags_part.Noted)
