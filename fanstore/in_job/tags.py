"""Telling which files the samples of a dataset are that has no list of them: each sample is noted
in the access trace before it is read, and what is opened then is of that sample. See start.py."""

from __future__ import annotations

import operator
import os
import weakref
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_NONE = 0xFFFFFFFF  # as FAN_NOTE_NO_FILE
_NUMBER_MASK = 0xFFFFFF
_NESTED_MAX = 4
_TEXT_MAX = 4096


class Tags:
    """Notes samples. note_sample: does so, given the number of one and that of its dataset.
    files_of: the files of a dataset, None where it has no list of them. of_a_handler: tells whether
    a signal handler of the job raised an exception, which is passed on."""

    def __init__(
        self,
        note_sample: Callable[[int, int], None],
        files_of: Callable[[Any], Any],
        of_a_handler: Callable[[Exception], bool],
    ) -> None:
        self._note_sample = note_sample
        self._files_of = files_of
        self._of_a_handler = of_a_handler
        # Of datasets: weak references, and what `name_of` returns.
        self._names: list[tuple[Any, list[Any] | None]] = []

    def name_of(self, dataset: Any) -> list[Any] | None:
        """Returns what a dataset is called, a text and the number that it has in notes, the same in
        each process and in the next job, and its length. None where its files are known, or it
        cannot be told from others."""
        for reference, name in self._names:
            if reference() is dataset:
                return name
        name = None
        try:
            reference = weakref.ref(dataset)
            if self._files_of(dataset) is None:
                text = "\n".join(_about(dataset, 0))[:_TEXT_MAX]
                number = zlib.crc32(text.encode("utf-8", "replace")) & _NUMBER_MASK
                name = [text, number, len(dataset)]
        except Exception as error:  # of the dataset's own code; or it is a plain list
            if self._of_a_handler(error):
                raise
            return None
        self._names.append((reference, name))
        return name

    def told(self, fetcher: Any, indices: Any) -> Any:
        """Returns the indices that a fetcher of torch is about to read, so that each is noted."""
        name = self.name_of(fetcher.dataset)
        if name is None:
            return indices
        if not fetcher.auto_collation:
            self._note(indices, name[1])
        elif type(indices) is list and _reads_one_by_one(fetcher.dataset):
            return _Noted(indices, self._note, name[1])
        return indices

    def read(self, fetcher: Any) -> None:
        """A fetcher has read the indices it was told of."""
        name = self.name_of(fetcher.dataset)
        if name is not None:
            self._note_sample(_NONE, name[1])

    def _note(self, index: Any, dataset: int) -> None:
        try:
            number = operator.index(index)
        except TypeError:  # a key of the dataset's own
            number = _NONE
        self._note_sample(number if 0 <= number < _NONE else _NONE, dataset)


class _Noted(list):  # type: ignore[type-arg]
    """The indices of a batch: each is noted when it is the next to be read."""

    def __init__(self, indices: list[Any], note: Callable[[Any, int], None], dataset: int) -> None:
        super().__init__(indices)
        self._note = note
        self._dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        for index in super().__iter__():
            self._note(index, self._dataset)
            yield index


def _reads_one_by_one(dataset: Any) -> bool:
    """Whether a batch of a dataset is read by its indices, one after the other."""
    for _ in range(_NESTED_MAX):
        if not callable(getattr(dataset, "__getitems__", None)):
            return True
        if type(dataset).__module__ != "torch.utils.data.dataset":  # other than Subset
            return False
        dataset = dataset.dataset
    return False


def _about(dataset: Any, depth: int) -> Iterator[str]:
    """Yields lines by which a dataset is known again: its class, length and plain attributes."""
    kind = type(dataset)
    module = kind.__module__.replace("__mp_main__", "__main__")  # in a worker that was spawned
    yield f"{module}.{kind.__qualname__} of {len(dataset)}"
    for name, value in sorted(vars(dataset).items()):
        if isinstance(value, (str, bytes, int, float, os.PathLike)):
            yield f"{name} = {value!r}"
        elif isinstance(value, (list, tuple, range)):
            ends = [repr(value[at])[:200] for at in (0, -1)] if len(value) else []
            yield f"{name}: {len(value)}, {ends}"
        elif depth < _NESTED_MAX and hasattr(value, "__dict__") and hasattr(value, "__len__"):
            for line in _about(value, depth + 1):
                yield f"{name}.{line}"
