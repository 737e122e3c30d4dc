"""Finds out where the samples of a dataset of Hugging Face `datasets` lie in its Arrow files. It
reads a batch at once, from mapped files, so nobody could see which sample a page belongs to. See
start.py."""

from __future__ import annotations

import array
import bisect
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_MODULE = "datasets.arrow_dataset"
_NESTED_MAX = 4
_TIME_MAX_S = 2.0  # the lengths of rows may have to be read from the files
_SMALL_BYTES = 16 << 10  # so little is in memory after the first row


def ranges_of(
    data: Any, dataset: Any, files: Any, length_of: Callable[[Any], int | None]
) -> dict[str, list[bytes]] | None:
    """Returns where the samples lie, as parts of an announcement: "paths" of the files, "ranges"
    (foresight/ranges.py), and "chosen", the rows that are the samples, unless all are. None if the
    samples are no rows of Arrow files. data: the module torch.utils.data; files: files.py."""
    table, chosen = _table_of(data, dataset, files, length_of, 0)
    if table is None:
        return None
    paths: dict[str, int] = {}
    ranges = array.array("q")
    maps, until_s = _Maps(), time.monotonic() + _TIME_MAX_S
    for path, first, column in _columns(table):
        for chunk in column.chunks:
            if time.monotonic() > until_s:
                break
            rows = sys.modules["numpy"].arange(chunk.offset, chunk.offset + len(chunk) + 1)
            for ends in _ends(chunk.type, iter(chunk.buffers()), rows) if len(chunk) else ():
                number = paths.setdefault(path, len(paths))
                _add(ranges, number, first, ends - maps.start_of(int(ends[0])))
            first += len(chunk)
    found = {"paths": [os.fsencode(f"{path}\0") for path in paths], "ranges": [ranges.tobytes()]}
    if not ranges:
        return None
    return found if chosen is None else {**found, "chosen": [chosen.astype("q").tobytes()]}


def _table_of(data: Any, dataset: Any, files: Any, length_of: Any, depth: int) -> tuple[Any, Any]:
    """Returns the dataset of `datasets` of which another one reads one row for each sample, and the
    rows that are the samples (None: all); (None, None) if there is none."""
    own, kind = files.attributes_of(dataset), type(dataset)
    if kind.__module__ == _MODULE:
        indices = own.get("_indices")
        return dataset, None if indices is None else indices.column(0).to_numpy()
    if depth > _NESTED_MAX:
        return None, None
    if issubclass(kind, data.Subset):
        table, rows = _table_of(data, own.get("dataset"), files, length_of, depth + 1)
        chosen = own.get("indices", ())
        if table is None or not files.is_plain(chosen):  # else code of the job would run
            return None, None
        chosen = sys.modules["numpy"].asarray(chosen, "q")
        return table, chosen if rows is None else rows[chosen]
    for value in own.values():
        if type(value).__module__ == _MODULE and len(value) == length_of(dataset):
            return _table_of(data, value, files, length_of, depth + 1)
    return None, None


def _columns(dataset: Any) -> Iterator[tuple[str, int, Any]]:
    """Yields the parts of a dataset's columns that lie in one file: its path, the number of the
    first row, and the column."""
    whole, wanted = dataset._data, dataset._format_columns
    first = 0
    for side_by_side in getattr(whole, "blocks", [[whole]]):
        for block in side_by_side:
            if hasattr(block, "path"):
                for name in block.column_names:
                    if wanted is None or name in wanted:
                        yield os.path.abspath(block.path), first, block.table.column(name)
        first += side_by_side[0].num_rows


def _ends(kind: Any, buffers: Iterator[Any], at: Any) -> Iterator[Any]:
    """Yields, for each buffer with values, the addresses at which the rows begin, and of the end.
    Stops at a type that it does not know. kind: an array's type; buffers: of the array and of those
    within it, in the order of the Arrow columnar format; at: the places of the rows in it, and the
    end."""
    np, types = sys.modules["numpy"], sys.modules["pyarrow"].types
    kind = getattr(kind, "storage_type", kind)  # of an extension type
    next(buffers)  # which values are missing: a bit for each, so their pages stay in memory
    if types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _ends(kind.field(number).type, buffers, at)
        return
    short = types.is_list(kind), types.is_string(kind), types.is_binary(kind)
    large = types.is_large_list(kind), types.is_large_string(kind), types.is_large_binary(kind)
    if any(short + large):
        at = np.frombuffer(next(buffers), "i8" if any(large) else "i4")[at].astype("i8")
    if types.is_fixed_size_list(kind):
        yield from _ends(kind.value_type, buffers, at * kind.list_size)
    elif short[0] or large[0]:
        yield from _ends(kind.value_type, buffers, at)
    elif any(short + large):
        yield at + next(buffers).address
    elif types.is_primitive(kind) or types.is_fixed_size_binary(kind):
        yield at * kind.bit_width // 8 + next(buffers).address


def _add(ranges: Any, path: int, first: int, ends: Any) -> None:
    """Adds the ranges of successive rows of a file: one for all if they are of the same size."""
    np, rows = sys.modules["numpy"], len(ends) - 1
    if ends[-1] - ends[0] <= _SMALL_BYTES:
        return
    if (np.diff(ends) == ends[1] - ends[0]).all():
        ranges.frombytes(np.array([path, first, rows, ends[0], ends[-1]], "q").tobytes())
        return
    each = np.arange(rows) + first, np.ones(rows), ends[:-1], ends[1:]
    ranges.frombytes(np.column_stack([np.full(rows, path), *each]).astype("q").tobytes())


class _Maps:
    """The mappings of this process. Arrow maps a file as a whole, so a mapping begins where the
    file begins."""

    def __init__(self) -> None:
        with open("/proc/self/maps", "rb") as stream:
            self._starts = [int(line.partition(b"-")[0], 16) for line in stream]

    def start_of(self, address: int) -> int:
        """Returns the address at which the mapping with an address begins."""
        return self._starts[bisect.bisect_right(self._starts, address) - 1]
