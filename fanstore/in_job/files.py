"""Finds the files of each sample of a dataset that has a list of its files. See start.py."""

from __future__ import annotations

import itertools
import operator
import os
import pathlib
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    # A list of paths: the list; the index of the path in each entry (None: the entry is the path);
    # the directory to put before the path.
    _Column = tuple[Any, int | None, str]

_MAJOR = 0xFA5  # the major device number in stat results of FanStore's files
_NESTED_MAX = 4
_MEMBERS_MAX = 8  # the most members of an entry that are looked at
_TRIES_MAX = 32  # the most calls of stat
_PIECE = 1 << 14


def paths_of(*how: Any) -> tuple[int, Iterator[bytes]] | None:
    """Returns the number of files of each sample of a dataset, and the paths of all samples in
    pieces, with a NUL after each path. Returns None unless a list of the dataset certainly names
    its files. how: the arguments of columns_of."""
    columns = columns_of(*how)
    return (len(columns), joined(columns)) if columns else None


def columns_of(
    data: Any, dataset: Any, length_of: Callable[[Any], int | None], least: int
) -> list[_Column]:
    """Returns the lists that name the files of a dataset's samples. data: the module
    torch.utils.data; length_of: returns the length of a dataset, or None if only code of the job
    could tell; least: the dataset has at least so many samples; 0: that is unknown, too."""
    return _columns(data, dataset, 0, length_of, length_of(dataset), least)


def _columns(
    data: Any, dataset: Any, depth: int, length_of: Any, count: int | None, least: int
) -> list[_Column]:
    if depth > _NESTED_MAX:
        return []
    kind, own = type(dataset), attributes_of(dataset)
    if issubclass(kind, data.Subset):
        inner, chosen = own.get("dataset"), own.get("indices", ())
        if not is_plain(chosen) or not len(chosen):
            return []
        most = int(chosen.max() if hasattr(chosen, "max") else max(chosen))
        found = _columns(data, inner, depth + 1, length_of, length_of(inner), most + 1)
        found = [(Picked(values, chosen), member, root) for values, member, root in found]
    elif issubclass(kind, data.ConcatDataset):
        parts = own.get("datasets", ())
        found = _chained(
            [_columns(data, each, depth + 1, length_of, length_of(each), 0) for each in parts]
        )
    else:
        lengths = [count] if count else lengths_in(own, least) if least else []
        found = next(filter(None, (columns_in(own, length) for length in lengths)), [])
        for value in own.values():  # a dataset within it, or an object that reads its files (timm)
            if not found and hasattr(type(value), "__len__") and attributes_of(value):
                found = _columns(data, value, depth + 1, length_of, count, least)
    return found if count is None or all(len(each[0]) == count for each in found) else []


def attributes_of(thing: Any) -> dict[str, Any]:
    """Returns the attributes of an object itself; runs no code of its class."""
    try:
        own = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}


def is_plain(thing: Any) -> bool:
    """Returns whether a thing is a row whose class runs no code of the job."""
    kind = type(thing)
    if kind in (list, tuple, range):
        return True
    return kind.__module__ in ("numpy", "torch") and getattr(thing, "ndim", 0) == 1


def lengths_in(attributes: Any, least: int) -> list[int]:
    """Returns the lengths of the lists among some attributes that have `least` entries and more,
    the shortest first."""
    return sorted(
        {len(each) for each in attributes.values() if is_plain(each) and len(each) >= least}
    )


def columns_in(attributes: Any, count: int) -> list[_Column]:
    """Finds lists of `count` paths of FanStore's files, or of tuples that contain such paths."""
    roots = [""]
    for value in attributes.values():
        root = text_of(value)
        if root:
            roots.append(root)
    found: list[_Column] = []
    seen: list[tuple[str, str]] = []
    tries = _TRIES_MAX
    for value in attributes.values():
        values = _row(value, count)
        members = [] if values is None or type(values[0]) is dict else members_of(values[0])
        for member, root in itertools.product(members, roots):
            first, last = (path(values, at, member, root) for at in (0, count - 1))
            if not first or not last or (first, last) in seen:
                continue
            tries -= 1
            if tries >= 0 and is_ours(first) and is_ours(last):
                seen.append((first, last))
                found.append((values, member, root))
    return found


def _row(value: Any, count: int) -> Any:
    """Returns a value if it is a sequence of `count` entries, otherwise None."""
    if type(value) in (list, tuple) and len(value) == count:
        return value
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == (count,):
        return value if value.dtype.kind in "USO" else None
    return None


def path(values: Any, at: int, member: int | None, root: str) -> str:
    """Returns the full path in entry `at` of a list; "" if it contains none."""
    text = _text(values, at, member)
    return os.path.join(root or os.getcwd(), text) if text else ""


def _text(values: Any, at: int, member: int | None) -> str:
    try:
        entry = values[at]
        if member is not None:
            entry = entry[member] if _has_members(entry) else None
    except (IndexError, KeyError, TypeError):
        return ""
    return text_of(entry)


def text_of(value: Any) -> str:
    """Returns a path as text; "" if it is none, or of a class of the job, which may run the job's
    own code at any access."""
    kind = type(value)
    plain = kind in (str, bytes) or (issubclass(kind, (str, bytes)) and kind.__module__ == "numpy")
    return os.fsdecode(value) if plain or issubclass(kind, pathlib.PurePath) else ""


def _has_members(entry: Any) -> bool:
    """Returns whether an entry of a list is a tuple (also a named one), a list or a dict, and its
    class leaves the access to members to Python."""
    kind = type(entry)
    if issubclass(kind, (tuple, list)):
        return kind.__getitem__ in (tuple.__getitem__, list.__getitem__)
    return kind is dict


def members_of(entry: Any) -> list[Any]:
    """Returns the indices or keys at which an entry of a list may have a path; None: it is one."""
    if not _has_members(entry):
        return [None]
    if type(entry) is dict:
        return [key for key in itertools.islice(entry, _MEMBERS_MAX) if type(key) is str]
    return list(range(min(len(entry), _MEMBERS_MAX)))


def is_ours(path: str) -> bool:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return False
    return os.major(found.st_dev) == _MAJOR and stat.S_ISREG(found.st_mode)


class Picked:
    """A selection of the entries of a sequence, by their indices."""

    def __init__(self, values: Any, chosen: Any) -> None:
        self.values, self.chosen = values, chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, at: Any) -> Any:
        if not isinstance(at, slice):
            return self.values[self.chosen[at]]
        chosen = self.chosen[at]
        # itemgetter does not return a tuple for one item, and fails for none.
        if len(chosen) < 2 or isinstance(self.values, Picked):
            return [self.values[each] for each in chosen]
        return operator.itemgetter(*chosen)(self.values)


def _chained(parts: list[list[_Column]]) -> list[_Column]:
    """Chains the lists of several datasets, as full paths."""
    width = len(parts[0]) if parts else 0
    if any(len(each) != width for each in parts):
        return []
    chained: list[_Column] = []
    for column in range(width):
        whole: list[str] = []
        for part in parts:
            for piece in _pieces(part[column]):
                whole += piece.split("\0")
        chained.append((whole, None, ""))
    return chained


def _pieces(column: _Column) -> Iterator[str]:
    """Yields the full paths of a list in pieces, with a NUL between two paths. Either all paths of
    the list are relative or none is."""
    values, member, root = column
    absolute = not len(values) or _text(values, 0, member).startswith("/")
    before = "" if absolute else os.path.join(root or os.getcwd(), "")
    between = "\0" + before
    for at in range(0, len(values), _PIECE):
        piece: Iterable[Any] = values[at : at + _PIECE]
        if member is not None:
            piece = map(operator.itemgetter(member), piece)
        texts = list(piece)
        try:
            yield before + between.join(texts)
        except TypeError:
            yield before + between.join(map(text_of, texts))


def joined(columns: list[_Column]) -> Iterator[bytes]:
    for pieces in zip(*(_pieces(column) for column in columns)):
        paths = pieces[0]
        if len(pieces) > 1:
            samples = zip(*(piece.split("\0") for piece in pieces))
            paths = "\0".join(path for sample in samples for path in sample)
        yield os.fsencode(paths + "\0")
