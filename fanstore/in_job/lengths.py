"""Remembers the lengths of datasets that torch has asked for, so that nobody else need ask:
`__len__` is code of the job. See start.py."""

from __future__ import annotations

import types
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class Lengths:
    """The lengths of things, by identity: `==` may be code of the job."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, int]] = {}  # weak references and lengths, by id

    def note(self, length: int, thing: Any) -> None:
        """Call it when torch has got the length of a thing."""
        if _is_code_of_the_job(thing):
            if id(thing) not in self._known:
                alive = [each for each in self._known.items() if each[1][0]() is not None]
                self._known = dict(alive)
            try:
                self._known[id(thing)] = weakref.ref(thing), length
            except TypeError:  # the class allows no weak references
                return

    def of(self, thing: Any) -> int | None:
        """Returns the length of a thing; None if only code of the job could tell."""
        if not _is_code_of_the_job(thing):
            return len(thing) if hasattr(type(thing), "__len__") else None
        known = self._known.get(id(thing))
        return known[1] if known is not None and known[0]() is thing else None


def _is_code_of_the_job(thing: Any) -> bool:
    return isinstance(getattr(type(thing), "__len__", None), types.FunctionType)
