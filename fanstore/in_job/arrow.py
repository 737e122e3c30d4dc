"""Finds the bytes of each sample in the Arrow files of a dataset of Hugging Face's `datasets`. Such
a dataset reads a batch at once, from mapped files, so nobody could see which sample a page belongs
to. See start.py."""

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
_WORDS_MAX = 5 * 3 << 20  # of five words for each range: the daemon takes no more


def ranges_of(
    data: Any, dataset: Any, files: Any, length_of: Callable[[Any], int | None]
) -> dict[str, list[bytes]] | None:
    """Returns the bytes of all samples, as parts of an announcement: "paths" of the files, "ranges"
    (foresight/ranges.py), and "chosen", the rows that are the samples, unless all are. None if the
    samples are no rows of Arrow files. data: the module torch.utils.data; files: files.py."""
    table, chosen = _table_of(data, dataset, files, length_of, 0)
    if table is None:
        return None
    np = sys.modules["numpy"]
    paths: dict[str, int] = {}
    ranges = array.array("q")
    maps, until_s = _Maps(), time.monotonic() + _TIME_MAX_S
    for path, first, column in _columns(table):
        for chunk in column.chunks:
            if time.monotonic() > until_s or len(ranges) > _WORDS_MAX:
                break
            for ends in _ends(chunk, np.arange(len(chunk) + 1)) if len(chunk) else ():
                begin = maps.begin_of(int(ends[0]), int(ends[-1]))
                if begin is not None and ends[-1] - ends[0] > _SMALL_BYTES:
                    _add(ranges, paths.setdefault(path, len(paths)), first, ends - begin)
            first += len(chunk)
    if not ranges:
        return None
    found = {"paths": [os.fsencode(f"{path}\0") for path in paths], "ranges": [ranges.tobytes()]}
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


def _ends(values: Any, at: Any) -> Iterator[Any]:
    """Yields, for each buffer with values of an array, the addresses at which its rows begin, and
    of the end. Passes over types that it does not know. at: the places of the rows in the array,
    and the end. (Bits for missing values and offsets are small, so their pages stay in memory.)"""
    types = sys.modules["pyarrow"].types
    values = getattr(values, "storage", values)  # of an extension type
    kind, buffers, placed = values.type, values.buffers(), at + values.offset
    if types.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _ends(values.field(number), at)  # which begins where the struct begins
    elif types.is_fixed_size_list(kind):
        yield from _ends(values.values, placed * kind.list_size)
    elif types.is_list(kind):
        yield from _ends(values.values, _offsets(buffers[1], "i4", placed))
    elif types.is_large_list(kind):
        yield from _ends(values.values, _offsets(buffers[1], "i8", placed))
    elif types.is_string(kind) or types.is_binary(kind):
        yield _offsets(buffers[1], "i4", placed) + buffers[2].address
    elif types.is_large_string(kind) or types.is_large_binary(kind):
        yield _offsets(buffers[1], "i8", placed) + buffers[2].address
    elif types.is_primitive(kind) or types.is_fixed_size_binary(kind):
        yield placed * kind.bit_width // 8 + buffers[1].address


def _offsets(buffer: Any, width: str, at: Any) -> Any:
    return sys.modules["numpy"].frombuffer(buffer, width)[at].astype("i8")


def _add(ranges: Any, path: int, first: int, ends: Any) -> None:
    """Adds the ranges of successive rows of a file: one for all if they are of the same size."""
    np, rows = sys.modules["numpy"], len(ends) - 1
    if (np.diff(ends) == ends[1] - ends[0]).all():
        ranges.frombytes(np.array([path, first, rows, ends[0], ends[-1]], "q").tobytes())
        return
    each = np.arange(rows) + first, np.ones(rows), ends[:-1], ends[1:]
    ranges.frombytes(np.column_stack([np.full(rows, path), *each]).astype("q").tobytes())


class _Maps:
    """The mappings of files in this process. Arrow maps a file as a whole, so a mapping begins
    where the file begins."""

    def __init__(self) -> None:
        self._maps: list[tuple[int, int]] = []
        with open("/proc/self/maps", "rb") as stream:
            for line in stream:
                bounds, _, _, _, inode = line.split(None, 5)[:5]
                begin, _, end = bounds.partition(b"-")
                if inode != b"0":
                    self._maps.append((int(begin, 16), int(end, 16)))

    def begin_of(self, first: int, last: int) -> int | None:
        """Returns the address at which the mapping with two addresses begins; None if none has
        both, because they are in other memory: a column may have been converted."""
        at = bisect.bisect_right(self._maps, (first, sys.maxsize)) - 1
        begin, end = self._maps[at] if at >= 0 else (0, 0)
        return begin if begin <= first <= last <= end else None
