"""Finds out which files belong to each sample, for a dataset that has no list of its files, or a
list that proved wrong: writes a note to the access trace before each sample is read; the files
opened after that note are the sample's. See start.py."""

from __future__ import annotations

import functools
import operator
import os
import weakref
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_NONE = 0xFFFFFFFF  # the value of FAN_NOTE_NO_FILE
_NUMBER_MASK = 0xFFFFFF
_NESTED_MAX = 4
_TEXT_MAX = 4096


class Tags:
    """Writes notes of samples. note_sample: writes a note, given the numbers of a sample and of its
    dataset, and whether it is read together with the sample noted before. files_of: returns the
    files of a dataset with at least so many samples, or None if it has no list of them.
    of_a_handler: returns whether a signal handler of the job raised an exception; such an exception
    is raised again. doubted: the path of a file that the daemon makes once a list of the job has
    proved wrong."""

    def __init__(
        self,
        note_sample: Callable[[int, int, bool], None],
        files_of: Callable[[Any, int], Any],
        of_a_handler: Callable[[Exception], bool],
        doubted: str,
    ) -> None:
        self._note_sample = note_sample
        self._files_of = files_of
        self._of_a_handler = of_a_handler
        self._doubted = doubted
        self._known: list[_Known] = []

    def name_of(self, dataset: Any, least: int = 0) -> list[Any] | None:
        """Returns a dataset's name: a text, and its number in notes (the same in each process and
        in the next job). None if its files are known, or if it cannot be named. least: the dataset
        has at least so many samples; 0: that is unknown."""
        known = self._known_of(dataset)
        try:
            if known is None:
                known = _Known(weakref.ref(dataset), self._files_of(dataset, least) is not None)
                self._known.append(known)
            if known.name is None and (not known.has_list or os.path.exists(self._doubted)):
                known.name = _name(dataset)
        except Exception as error:  # by the dataset, or it takes no weak reference
            if self._of_a_handler(error):
                raise
            return None
        return known.name

    def _known_of(self, dataset: Any) -> _Known | None:
        return next((each for each in self._known if each.dataset() is dataset), None)

    def told(self, fetcher: Any, indices: Any) -> Any:
        """Returns the indices that torch's fetcher is to read; each is noted just before its sample
        is read, or all of a batch now if the dataset reads it as a whole."""
        name = self.name_of(fetcher.dataset)
        if name is None:
            return indices
        if not fetcher.auto_collation:
            self._note(indices, name[1])
        elif type(indices) is list and _reads_one_by_one(fetcher.dataset):
            return Noted(indices, functools.partial(self._note, dataset=name[1]))
        elif type(indices) is list:
            for position, index in enumerate(indices):
                self._note(index, name[1], joins=position > 0)
        return indices

    def read(self, fetcher: Any) -> None:
        """Call it when a fetcher has read the indices that `told` returned."""
        known = self._known_of(fetcher.dataset)
        if known is not None and known.name is not None:
            self._note_sample(_NONE, known.name[1], False)

    def _note(self, index: Any, dataset: int, joins: bool = False) -> None:
        is_number = type(index) is int or type(index).__module__ in ("numpy", "torch")
        try:
            number = operator.index(index) if is_number else _NONE
        except TypeError:  # a key that only the dataset knows
            number = _NONE
        self._note_sample(number if 0 <= number < _NONE else _NONE, dataset, joins)


class _Known:
    """A dataset. dataset: a weak reference; has_list: whether it has a list of its files; name: if
    it was needed, the result of `_name`."""

    def __init__(self, dataset: Any, has_list: bool) -> None:
        self.dataset = dataset
        self.has_list = has_list
        self.name: list[Any] | None = None


class Noted(list):  # type: ignore[type-arg]
    """The indices of a batch. Iterating over them notes each one just before it is read."""

    def __init__(self, indices: list[Any], note: Callable[[Any], None]) -> None:
        super().__init__(indices)
        self._note = note

    def __iter__(self) -> Iterator[Any]:
        for index in super().__iter__():
            self._note(index)
            yield index


def _reads_one_by_one(dataset: Any) -> bool:
    """Returns whether a dataset reads a batch index by index."""
    for _ in range(_NESTED_MAX):
        kind = type(dataset)
        # `__getattr__` may get the method from an attribute, as in a wrapper.
        parts = vars(dataset).values() if hasattr(kind, "__getattr__") else ()
        if not any(hasattr(type(each), "__getitems__") for each in (dataset, *parts)):
            return True
        # a dataset class that is not torch's own, such as Subset
        if kind.__module__ != "torch.utils.data.dataset":
            return False
        dataset = dataset.dataset
    return False


def _name(dataset: Any) -> list[Any]:
    text = "\n".join(_about(dataset, 0))[:_TEXT_MAX]
    return [text, zlib.crc32(text.encode("utf-8", "replace")) & _NUMBER_MASK]


def _about(dataset: Any, depth: int) -> Iterator[str]:
    """Yields lines that identify a dataset: its class and plain attributes."""
    kind = type(dataset)
    # the name of __main__ in a spawned worker
    yield f"{kind.__module__.replace('__mp_main__', '__main__')}.{kind.__qualname__}"
    for name, value in sorted(vars(dataset).items()):
        if _is_plain(value):
            yield f"{name} = {repr(value)[:1000]}"
        elif type(value) in _LISTS:
            ends = [value[at] for at in (0, -1)] if len(value) and type(value) is not dict else []
            yield f"{name}: {len(value)}, {[repr(each)[:200] for each in ends if _is_plain(each)]}"
        elif depth < _NESTED_MAX and hasattr(value, "__dict__") and hasattr(type(value), "__len__"):
            for line in _about(value, depth + 1):
                yield f"{name}.{line}"


_LISTS = (list, tuple, range, dict)


def _is_plain(value: Any) -> bool:
    """Returns whether only Python's own code makes the text of a value."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value).__module__ in ("builtins", "pathlib") and type(value) not in _LISTS
