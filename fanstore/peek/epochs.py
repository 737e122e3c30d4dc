"""Announcing each epoch of each loader of a process. See start.py."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Epochs:
    """Sees the iterators of DataLoaders, and tells the daemon what each epoch will read.

    sampler_of: describes an index sampler, or says None; files_of: the files of a dataset, or None;
    teller: sends messages. An error of any of them ends the watching of this process.
    """

    def __init__(self, sampler_of: Callable[..., Any], files_of: Callable[..., Any], teller: Any):
        self._sampler_of = sampler_of
        self._files_of = files_of
        self._teller = teller
        self._off = False
        self._forget()

    def made(self, iterator: Any, loader: Any) -> None:
        """A loader has made an iterator. Where it has workers, these are started next, and then
        begin to read: torch draws no random numbers until then."""
        if self._off:
            return
        try:
            if os.getpid() != self._pid:
                self._forget()
            seen = _Seen(loader)
            self._seen[iterator] = seen
            if seen.workers > 0:
                seen.told = True
                self._tell(iterator, seen)
        except Exception as error:
            self._give_up(error)

    def drawing(self, iterator: Any) -> None:
        """An iterator is about to draw indices."""
        if self._off:
            return
        try:
            seen = self._seen.get(iterator)
            if seen is not None and seen.drawn_from is not iterator._sampler_iter:
                seen.drawn_from = iterator._sampler_iter
                if not seen.told:
                    self._tell(iterator, seen)
                seen.told = False
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._off = True
        self._teller.failed(error)

    def _forget(self) -> None:
        """A process that was forked has told nothing yet."""
        self._pid = os.getpid()
        self._seen: Any = weakref.WeakKeyDictionary()
        self._loaders: list[Any] = []
        self._datasets: list[Any] = []

    def _number(self, index_sampler: Any) -> int:
        """Returns the number of a loader, known by its sampler: iterators come and go."""
        return _number_in(self._loaders, index_sampler)[0]

    def _tell(self, iterator: Any, seen: _Seen) -> None:
        """Announces what the sampler will draw."""
        found = self._sampler_of(iterator._index_sampler) if seen.is_map else None
        if found is None:
            return
        sampler, parts = found
        parts = {name: [content] for name, content in parts.items()}
        number, files = self._files(iterator._dataset)
        message = {
            "loader": self._number(iterator._index_sampler),
            "sampler": sampler,
            "workers": seen.workers,
            "prefetch_factor": seen.prefetch_factor,
            "in_order": seen.in_order,
            "dataset": number,
        }
        if files is not None:
            message["files_per_sample"], parts["paths"] = files
        self._teller.tell(message, parts)

    def _files(self, dataset: Any) -> Any:
        """Returns the number of a dataset, and its files if they were not told yet."""
        number, known = _number_in(self._datasets, dataset)
        return number, None if known else self._files_of(dataset)


def _number_in(known: list[Any], thing: Any) -> tuple[int, bool]:
    """Returns the place of a thing in a list of weak references, and whether it was there before;
    now it is."""
    for number, reference in enumerate(known):
        if reference() is thing:
            return number, True
    try:
        known.append(weakref.ref(thing))
    except TypeError:  # of a plain list
        return -1, False
    return len(known) - 1, False


class _Seen:
    """What is known of one iterator."""

    def __init__(self, loader: Any) -> None:
        self.workers = int(loader.num_workers)
        self.prefetch_factor = int(getattr(loader, "prefetch_factor", None) or 2)
        self.in_order = bool(getattr(loader, "in_order", True))
        self.is_map = int(loader._dataset_kind) == 0
        self.drawn_from: Any | None = None
        self.told = False  # what is drawn next
