"""The samples of a job: the regular files below one directory of a dataset, in the order of their
records."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanstore.arrays import np
from fanstore.dataset import Dataset
from fanstore.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Samples:
    """Sample i is the record records[i]; the record ids rise. sizes_bytes: the logical sizes.
    room_bytes: the most room that a kept sample takes: its stored bytes and a page."""

    records: NDArray[np.int64]
    sizes_bytes: NDArray[np.int64]
    room_bytes: NDArray[np.int64]

    @property
    def total_bytes(self) -> int:
        """The size of all samples as programs see them."""
        return int(self.sizes_bytes.sum())


def samples_below(dataset: Dataset, under: str) -> Samples:
    """Returns the samples of a dataset below the directory `under` ("." is the root). Raises
    UsageError if there are none, DatasetDamaged."""
    dataset.check_records()
    records = dataset.records
    parts = [part for part in under.split("/") if part not in ("", ".")]
    try:
        top = dataset.lookup(os.fsencode("/".join(parts)))
    except (FileNotFoundError, UnicodeEncodeError):
        raise UsageError(f"{dataset.directory}: there is no directory {under!r} in it") from None
    ids = _regular_below(dataset, top)
    if not len(ids):
        raise UsageError(f"{dataset.directory}: there are no files below {under!r}")
    stored = records["stored_size"][ids].astype(np.int64)
    return Samples(
        ids,
        records["logical_size"][ids].astype(np.int64),
        np.where(stored > 0, stored + _PAGE_BYTES, 0),
    )


def _regular_below(dataset: Dataset, top: int) -> NDArray[np.int64]:
    """Returns the regular files below a directory. Records are stored level by level, so the ones
    below a directory form one run in each level."""
    parents, regular = dataset.records["parent"], []
    modes = dataset.records["mode"]
    first, end = top, top + 1
    while first < end:
        # The root is its own parent, but not its own child.
        below = int(np.searchsorted(parents[1:], first)) + 1
        below_end = int(np.searchsorted(parents[1:], end)) + 1
        if below < end:
            raise dataset.damaged(below, "parent", "not a smaller id")
        kinds = modes[below:below_end] & np.uint16(0o170000)
        regular.append(np.flatnonzero(kinds == stat.S_IFREG) + below)
        first, end = below, below_end
    return np.concatenate(regular).astype(np.int64)
