"""Predicts the indices that a sampler of unknown code will draw, if it goes through a sequence
(row) of indices that exists already. Does not advance any iterator or run the sampler's code. See
start.py."""

from __future__ import annotations

import array
import gc
import sys
import types
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    _Indices = array.array[int]
    # A sequence that may be the row, and how many of its entries were drawn (None: unknown).
    _Candidate = tuple[Any, int | None]

_LOOKED_AT_MAX = 256
_STEP_MAX = 1024
_PASSED_MAX = 1 << 16  # indices of a row before an iterator's position that are looked at
INDICES_MAX = 1 << 27
# Sequences whose iterators reveal them and their position; not all these iterator types can be
# imported by name.
_ROWS: tuple[Iterable[Any], ...] = ([], (), range(0), range(1 << 70), array.array("q"))
_PLAIN = (list, tuple, range, array.array)
_MODULES = ("numpy", "torch")
_TELLING = {type(iter(row)) for row in _ROWS}
# the generic iterator of sequences, also of NumPy arrays
_TELLING.add(type(iter(type("", (), {"__getitem__": None})())))


# The function of python_hook.c raises no audit event; Python before 3.10 has not all that it needs.
get_referents: Callable[..., list[Any]] = gc.get_referents
if sys.version_info >= (3, 10):
    get_referents = globals().get("referents", get_referents)


def indices_of(drawn: Any) -> _Indices | None:
    """Returns the index or indices that a sampler drew at once, as an array; None if `drawn` is
    anything else, is not on the CPU, or if only code of the job could tell. (The batch may be an
    iterator, which gives its indices only once.)"""
    if type(drawn).__module__ in _MODULES and hasattr(drawn, "tolist"):
        if getattr(getattr(drawn, "device", None), "type", "cpu") != "cpu":
            return None
        drawn = drawn.tolist()
    if type(drawn) is int:
        return array.array("q", (drawn,))
    if type(drawn) is tuple and drawn and hasattr(type(drawn[0]), "unbind"):
        drawn = _unbound(drawn)
    if type(drawn) not in _PLAIN or not all(map(_is_number, {*map(type, drawn)})):
        return None
    try:
        return array.array("q", drawn)
    except (TypeError, ValueError, OverflowError):
        return None


def _unbound(drawn: tuple[Any, ...]) -> Any:
    """Returns the numbers of a tuple of torch scalars: in one step if they are views of one whole
    tensor, as Tensor.__iter__ makes them; otherwise the tuple itself."""
    row = drawn[0]._base
    if row is None or row.dim() != 1 or len(row) != len(drawn) or row.device.type != "cpu":
        return drawn
    ends_agree = all(row[at].data_ptr() == drawn[at].data_ptr() for at in (0, -1))
    return row.tolist() if ends_agree else drawn


def rest_of(iterator: Any, drawn: _Indices, before: _Indices) -> _Indices | None:
    """Returns the indices that will follow `drawn`, the last ones that a sampler's iterator drew,
    from the longest row that continues them; None if there is no such row. before: the batch before
    `drawn`, or nothing."""
    candidates = _candidates(iterator)
    if not before and _drew_a_part(candidates, len(drawn)):
        return None
    best = None
    for row, position in candidates:
        if best and position is None:
            break  # the others have no known position
        rest = _rest(row, position, drawn, before)
        if rest and (best is None or len(rest) > len(best)):
            best = rest
    return best


def _candidates(iterator: Any) -> list[_Candidate]:
    """Returns the sequences that an iterator refers to. Those with a known position come first."""
    things = reached(iterator)
    found: list[_Candidate] = []
    for row, position in with_positions(things):
        if type(row) is range:
            left = row[position:]  # before Python 3.12 this was the whole range
            begin = left.start - _PASSED_MAX * left.step
            row, position = range(begin, left.stop, left.step), _PASSED_MAX
        found.append((row, position))
    return found + [(thing, None) for thing in things if _is_row(thing)]


def _drew_a_part(candidates: list[_Candidate], drawn: int) -> bool:
    """Returns whether the sampler holds more indices of a row than it drew: all up to the position.
    The next batch then tells whether other ranks draw the others."""
    held = [thing for thing, position in candidates if position is None and len(thing) > drawn]
    return any(
        _passed(row, position, len(each)) == indices_of(each)
        for row, position in candidates
        for each in held
        if position is not None and position >= len(each)
    )


def _passed(row: Any, position: int, count: int) -> _Indices:
    """Returns the last indices of a row before a position, at most `count`."""
    return indices_of(row[max(0, position - count) : position]) or array.array("q")


def with_positions(things: list[Any]) -> Iterable[tuple[Any, int]]:
    """Yields the plain sequences that iterators among `things` go through, with the iterators'
    positions."""
    for thing in things:
        if type(thing) in _TELLING:
            _, arguments, *state = thing.__reduce__()
            if len(arguments) == 1 and _is_plain(arguments[0]):
                yield arguments[0], state[0] if state and state[0] else 0


def reached(iterator: Any) -> list[Any]:
    """Returns an iterator and the objects that it refers to, the nearest first."""
    found: list[Any] = []
    waiting, seen = [iterator], {0}
    while waiting and len(seen) < _LOOKED_AT_MAX:
        thing = waiting.pop(0)
        if id(thing) not in seen:
            seen.add(id(thing))
            found.append(thing)
            waiting += inside(thing)
    return found


def _is_plain(thing: Any) -> bool:
    """Returns whether the class of a thing is one of Python, NumPy or torch: a class of the job may
    run the job's own code at any access."""
    kind = type(thing)
    return kind in _PLAIN or kind.__module__ in _MODULES


def _is_number(kind: Any) -> bool:
    return kind is int or kind.__module__ in _MODULES


def _is_row(thing: Any) -> bool:
    return type(thing) in _PLAIN or (_is_plain(thing) and getattr(thing, "ndim", 0) == 1)


def inside(thing: Any) -> Iterable[Any]:
    """Returns the objects that a generator, an iterator or a sampler refers to."""
    kind = type(thing)
    if kind in _TELLING:
        return ()
    if _is_row(thing):
        return [each for each in thing[:4] if hasattr(type(each), "__next__")]
    own = getattr(thing, "__dict__", None)
    if type(own) is dict and (hasattr(kind, "__iter__") or hasattr(kind, "__next__")):
        return list(own.values())
    if kind in (types.FrameType, types.CellType) or hasattr(kind, "__next__"):
        return get_referents(thing)
    return ()


def _rest(row: Any, position: int | None, drawn: _Indices, before: _Indices) -> _Indices | None:
    if not 0 < len(row) <= INDICES_MAX or position == 0:
        return None
    if _is_row(row[0]):
        return _rest_of_batches(row, position or 1, drawn)
    if not _is_number(type(row[0])):
        return None
    if position is None:
        return _rest_after(row, drawn)
    rest = _rest_of_parts(row, position, drawn, before)
    step = _step(row, position, drawn) if rest is None else 0
    return indices_of(row[position - 1 + step :: step]) if step else rest


def _rest_after(row: Any, drawn: _Indices) -> _Indices | None:
    """Returns the part of a row after the only place where it has `drawn`. That is not its
    beginning if the sampler goes on in the middle of an epoch."""
    count = len(drawn)
    if not 1 < count < len(row):
        return None
    if indices_of(row[:count]) == drawn:
        return indices_of(row[count:])
    whole = indices_of(row)
    if whole is None or whole.count(drawn[0]) != 1:
        return None
    begin = whole.index(drawn[0])
    return whole[begin + count :] if whole[begin : begin + count] == drawn else None


def _rest_of_batches(row: Any, position: int, drawn: _Indices) -> _Indices | None:
    last = indices_of(row[position - 1])
    if not last or last != drawn[-len(last) :]:
        return None
    rest = array.array("q")
    for each in row[position:]:
        batch = indices_of(each)
        if batch is None:
            return None
        rest += batch
    return rest


def _rest_of_parts(row: Any, position: int, drawn: _Indices, before: _Indices) -> _Indices | None:
    """Returns the part of a row that follows if each batch is as far beyond the last one as `drawn`
    is beyond `before`: a rank draws its part of each larger batch."""
    passed = _passed(row, position, _PASSED_MAX)
    places = dict(zip(passed, range(position - len(passed), position)))
    if len(before) != len(drawn) or not places.keys() >= {*drawn, *before}:
        return None
    last = [places[index] for index in drawn]
    distance, *others = {place - places[index] for place, index in zip(last, before)}
    if others or distance <= 0:
        return None
    count = (len(row) - 1 - max(last)) // distance
    rest = array.array("q", bytes(8 * count * len(last)))
    for at, place in enumerate(last):
        part = indices_of(row[place + distance : place + count * distance + 1 : distance])
        rest[at :: len(last)] = part or array.array("q")
    return rest


def _step(row: Any, position: int, drawn: _Indices) -> int:
    """Returns the distance in a row between successive indices in `drawn`, the last of which is
    just before `position`; 0 if they are not in the row. It is above 1 if ranks share one row."""
    if int(row[position - 1]) != drawn[-1]:
        return 0
    if min(position, len(drawn)) == 1:
        return 1
    for step in range(1, min(position - 1, _STEP_MAX) + 1):
        if int(row[position - 1 - step]) == drawn[-2]:
            count = min(len(drawn), (position - 1) // step + 1)
            begin = position - 1 - step * (count - 1)
            if indices_of(row[begin:position:step]) == drawn[-count:]:
                return step
    return 0
