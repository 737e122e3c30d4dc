"""Announces each epoch of each loader of a process to the node daemon. See start.py."""

from __future__ import annotations

import array
import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fanstore.in_job.told import EpochTold, SamplerTold


class Epochs:
    """Watches the iterators of DataLoaders, and announces the reads of each epoch to the daemon.

    sampler_of: describes an index sampler, or returns None; draws_of: makes a Draws for a sampler
    of unknown code; files_of: returns the files of a dataset with at least so many samples, or
    None; ranges_of: returns the places of its samples in large files, or None; length_of: returns
    the length of a thing, None if only code of the job could tell;
    seed_of: returns the seed that an iterator has drawn, or None; tags: names datasets whose files
    are not known; teller: sends messages. An error in any of them ends the watching.
    """

    def __init__(
        self,
        sampler_of: Callable[..., Any],
        draws_of: Callable[..., Any],
        files_of: Callable[..., Any],
        ranges_of: Callable[[Any], Any],
        length_of: Callable[[Any], int | None],
        seed_of: Callable[[Any], int | None],
        tags: Any,
        teller: Any,
    ) -> None:
        self._sampler_of = sampler_of
        self._draws_of = draws_of
        self._files_of = files_of
        self._ranges_of = ranges_of
        self._length_of = length_of
        self._seed_of = seed_of
        self._tags = tags
        self._teller = teller
        self._off = False
        self._forget()

    def made(self, iterator: Any, loader: Any) -> None:
        """Call it when a loader has made an iterator. An iterator with workers starts them next,
        and they begin to read, so this announces the epoch: torch has drawn no random numbers
        yet."""
        self._try(self._made, iterator, loader)

    def drawing(self, iterator: Any) -> None:
        """Call it when an iterator is about to draw indices."""
        self._try(self._drawing, iterator)

    def drawn(self, iterator: Any, indices: Any) -> None:
        """Call it when an iterator has drawn `indices`; None if there were no more."""
        self._try(self._drawn, iterator, indices)

    def _try(self, step: Callable[..., None], *arguments: Any) -> None:
        if self._off:
            return
        try:
            step(*arguments)
        except BlockingIOError:  # the daemon is busy, so this message is skipped
            return
        except Exception as error:
            self._teller.failed(error)
            self._off = True

    def _made(self, iterator: Any, loader: Any) -> None:
        if os.getpid() != self._pid:
            self._forget()
        seen = self._seen[iterator] = _Seen(loader)
        if seen.workers > 0:
            seen.told = True
            self._tell(iterator, seen)

    def _drawing(self, iterator: Any) -> None:
        seen = self._seen.get(iterator)
        if seen is None or seen.drawn_from is iterator._sampler_iter:
            return
        seen.drawn_from = iterator._sampler_iter
        if not seen.told:
            self._tell(iterator, seen)
        seen.told = False

    def _drawn(self, iterator: Any, indices: Any) -> None:
        seen = self._seen.get(iterator)
        if seen is None or (seen.draws is None and seen.described is None):
            return
        if seen.described is not None:  # torch has asked for the length by now
            sampler, parts, sized = seen.described
            seed = self._seed_of(iterator._sampler_iter) if "state" in sampler else None
            known: Any = {**sampler, "drew": seed}
            self._tell_described(iterator, seen, known, parts, sized)
            if seen.described is None:
                return
            self._watch_draws(iterator, seen)
        draws: Any = seen.draws
        try:
            piece = draws.rest() if indices is None else draws.take(iterator._sampler_iter, indices)
            if piece is not None:
                self._send(iterator, seen, *piece)
        except BlockingIOError:
            draws.dropped()

    def _forget(self) -> None:
        """Resets the state after a fork: the new process has sent nothing yet."""
        self._pid = os.getpid()
        self._seen: Any = weakref.WeakKeyDictionary()
        self._loaders: list[Any] = []
        self._datasets: list[Any] = []

    def _number(self, index_sampler: Any) -> int:
        """Returns the number of a loader. Its index sampler identifies the loader, which makes a
        new iterator for each epoch."""
        return number_in(self._loaders, index_sampler)[0]

    def _tell(self, iterator: Any, seen: _Seen) -> None:
        """Announces the indices that the sampler will draw. If the sampler's code is unknown,
        watches its draws instead."""
        seen.draws = None
        if not seen.is_map:
            self._teller.again(self._number(iterator._index_sampler))
            return
        seen.described = self._sampler_of(iterator._index_sampler)
        if seen.described is not None:
            self._tell_described(iterator, seen, *seen.described)
        else:
            self._watch_draws(iterator, seen)

    def _watch_draws(self, iterator: Any, seen: _Seen) -> None:
        seen.described = None
        ahead = seen.workers * seen.prefetch_factor
        name, drops_last = _named(iterator._index_sampler)
        seen.draws = self._draws_of(name, ahead, drops_last)

    def _tell_described(
        self, iterator: Any, seen: _Seen, sampler: SamplerTold, parts: Any, sized: Any
    ) -> None:
        """Announces a described sampler. If its length is not known yet, or other threads may draw
        from its generator before it does, leaves that until it has drawn."""
        count = 0 if sized is None else self._length_of(sized)
        may_change = "state" in sampler and threading.active_count() > 1 and "drew" not in sampler
        if count is not None and not may_change:
            seen.described = None
            whole: Any = sampler if sized is None else {**sampler, "samples": count}
            self._send(iterator, seen, whole, parts)

    def _send(self, iterator: Any, seen: _Seen, sampler: SamplerTold, parts: Any) -> None:
        least = _least(sampler, parts)
        number, known = number_in(self._datasets, iterator._dataset)
        message: EpochTold = {
            "loader": self._number(iterator._index_sampler),
            "sampler": sampler,
            "workers": seen.workers,
            "prefetch_factor": seen.prefetch_factor,
            "in_order": seen.in_order,
            "dataset": number,
            "name": self._tags.name_of(iterator._dataset, least),
        }
        parts = {name: [content] for name, content in parts.items()}
        if not known:
            message["files_per_sample"], files = self._files(iterator._dataset, least)
            parts.update(files)
        try:
            self._teller.tell(message, parts)
        except BlockingIOError:
            if not known and number >= 0:  # send the files again the next time
                self._datasets.pop()
            raise

    def _files(self, dataset: Any, least: int) -> tuple[int, dict[str, Any]]:
        """Returns how many files each sample of a dataset has, and the parts of a message that name
        the files."""
        files = self._files_of(dataset, least)
        if files is not None:
            return files[0], {"paths": files[1]}
        return 1, self._ranges_of(dataset) or {}


def _least(sampler: SamplerTold, parts: dict[str, bytes]) -> int:
    """Returns a number of samples that a dataset has at least, by what a sampler draws from it."""
    weights, indices = parts.get("weights", b""), array.array("q", parts.get("indices", b""))
    return max(sampler.get("samples", 0), len(weights) // 8, 1 + max(indices, default=-1))


def number_in(known: list[Any], thing: Any) -> tuple[int, bool]:
    """Returns the position of `thing` in a list of weak references, and whether it was there
    before; adds it if not. The position is -1 if no weak reference to it is possible."""
    for number, reference in enumerate(known):
        if reference() is thing:
            return number, True
    try:
        known.append(weakref.ref(thing))
    except TypeError:  # there is no weak reference to a plain list
        return -1, False
    return len(known) - 1, False


def _named(index_sampler: Any) -> tuple[str, bool]:
    """Returns the name of the sampler class that the user chose, and whether torch forms the
    batches and drops a short last one."""
    if not type(index_sampler).__module__.startswith("torch."):
        return type(index_sampler).__name__[:64], False
    sampler = getattr(index_sampler, "sampler", index_sampler)
    return type(sampler).__name__[:64], bool(getattr(index_sampler, "drop_last", False))


class _Seen:
    """The state of one iterator."""

    def __init__(self, loader: Any) -> None:
        self.workers = int(loader.num_workers)
        self.prefetch_factor = int(getattr(loader, "prefetch_factor", None) or 2)
        self.in_order = bool(getattr(loader, "in_order", True))
        self.is_map = int(loader._dataset_kind) == 0
        self.drawn_from: Any | None = None
        self.told = False  # whether the next epoch was announced
        self.described: Any | None = None  # a sampler whose length is not known yet
        self.draws: Any | None = None  # a Draws, for a sampler of unknown code
