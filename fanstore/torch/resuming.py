"""The position of a loader in its epoch, and how a later loader continues from there."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset

from fanstore.errors import UsageError


class EpochProgress:
    """One epoch of a loader: the states of its generators when its order was drawn, and the batches
    yielded since. before: batches that an earlier loader yielded."""

    def __init__(self, loader: Any, before: int = 0) -> None:
        self.batches = before
        self.is_over = False
        # Seconds from each batch until the program asked for the next.
        self.train_s: list[float] = []
        self._own = _generators(loader)
        self._began: dict[str, Any] | None = None

    def drawing(self) -> None:
        """Call it before indices are drawn. The first call stores the states of the generators."""
        if self._began is None:
            own = [each.get_state() for each in self._own]
            self._began = {"torch": torch.get_rng_state(), "own": own}

    def described(self) -> dict[str, Any]:
        """Returns the values from which a later loader can continue."""
        self.drawing()
        return {"batches": self.batches, "began": self._began}


class Counted:
    """A base class for iterators of torch, to be named before torch's class. Records the draws and
    batches of the iterator in `progress`."""

    def __init__(self, loader: Any, progress: EpochProgress) -> None:
        self.progress = progress
        self._given_s = 0.0
        super().__init__(loader)  # type: ignore[call-arg]

    def _next_index(self) -> Any:
        self.progress.drawing()
        return super()._next_index()  # type: ignore[misc]

    def __next__(self) -> Any:
        if self._given_s:
            self.progress.train_s.append(time.monotonic() - self._given_s)
        try:
            batch = super().__next__()  # type: ignore[misc]
        except StopIteration:
            self.progress.is_over = True
            self._given_s = 0.0
            raise
        self.progress.batches += 1
        self._given_s = time.monotonic()
        return batch


class Resumed:
    """An index sampler that first yields the rest of the epoch in which `state` was taken; in later
    epochs it yields what `sampler` yields. Leaves torch's default generator unchanged."""

    def __init__(self, loader: Any, sampler: Any, state: dict[str, Any]) -> None:
        self._sampler = sampler
        self._own = _generators(loader)
        self._state: dict[str, Any] | None = state

    def __len__(self) -> int:
        return len(self._sampler)  # the length of a whole epoch, like the loader's

    def __iter__(self) -> Iterator[Any]:
        state, self._state = self._state, None
        if state is None:
            yield from self._sampler
            return
        now = torch.get_rng_state()
        torch.set_rng_state(state["began"]["torch"])
        try:
            set_own(self._own, state)
            # A sampler draws its order when the first indices are asked for.
            order = iter(self._sampler)
            first = list(itertools.islice(order, state["batches"] + 1))[state["batches"] :]
        finally:
            torch.set_rng_state(now)
        yield from first
        yield from order


def state_of(loader: Any, progress: Any) -> dict[str, Any]:
    """Returns the position of a loader as values that torch.save accepts. Raises UsageError if the
    loader's dataset is an IterableDataset."""
    if isinstance(loader.dataset, IterableDataset):
        raise UsageError("an IterableDataset keeps its own place: the loader has no state of it")
    state = {
        "samples": len(loader.dataset), "batch_size": loader.batch_size,
        "epoch": getattr(_sampler(loader), "epoch", None),
    }  # fmt: skip
    is_between = progress is None or progress.is_over
    at = EpochProgress(loader) if is_between else progress
    return {**state, **at.described(), "between": is_between}


def check(loader: Any, state: dict[str, Any]) -> None:
    """Checks that `state` fits the loader, and sets the sampler's epoch and the generators to it.
    Raises UsageError for a state of another loader."""
    if isinstance(loader.dataset, IterableDataset):
        raise UsageError("an IterableDataset keeps its own place: the loader has no state of it")
    needed = {"samples", "batch_size", "epoch", "batches", "began", "between"}
    if not isinstance(state, dict) or set(state) != needed:
        raise UsageError("the state is none that fanstore.torch.DataLoader.state_dict returned")
    now = {"samples": len(loader.dataset), "batch_size": loader.batch_size}
    then = {name: state[name] for name in now}
    own = _generators(loader)
    if now != then or len(own) != len(state["began"]["own"]):
        raise UsageError(f"the state is of a loader with {then}, not with {now} and its sampler")
    if state["epoch"] is not None and hasattr(_sampler(loader), "set_epoch"):
        _sampler(loader).set_epoch(state["epoch"])
    set_own(own, state)


def set_own(own: list[torch.Generator], state: dict[str, Any]) -> None:
    """Sets the generators `own` of a loader and its sampler to their states in `state`."""
    for generator, its in zip(own, state["began"]["own"], strict=True):
        generator.set_state(its)


def _sampler(loader: Any) -> Any:
    """Returns the sampler that the user gave, or the one that torch made."""
    own = loader.batch_sampler
    is_torchs = own is None or type(own) is torch.utils.data.BatchSampler
    return loader.sampler if is_torchs else own


def _generators(loader: Any) -> list[torch.Generator]:
    found = [loader.generator, getattr(_sampler(loader), "generator", None)]
    return [each for n, each in enumerate(found) if each is not None and each not in found[:n]]
