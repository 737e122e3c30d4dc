"""The datasets of a traced job: the names of files, and the ranks that have each file, as far as
the indexes can be opened."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from fanstore.arrays import np
from fanstore.dataset import Dataset, are_files, open_dataset
from fanstore.errors import FanstoreError, UsageError
from fanstore.trace import Trace

NOBODY = -1


def shown(name: bytes) -> str:
    """Returns a name for people: bytes that are not text, or invisible, are escaped."""
    text = name.decode("utf-8", "backslashreplace")
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


@dataclass(frozen=True)
class CatalogueEntry:
    """One dataset of the job. dataset: None if its index cannot be opened; `why` is the reason.
    pack_ranks: the ranks that have each pack; bounds: how the packs that no rank has whole are
    divided, see docs/format.md."""

    name: str
    mount_prefix: str
    dataset: Dataset | None
    why: str
    pack_ranks: tuple[tuple[int, ...], ...]
    bounds: tuple[int, ...]

    def file_name(self, file: int) -> str:
        """Returns the path of a file below the mount prefix; its number if the index is missing."""
        if self.dataset is None or file >= len(self.dataset.records):
            return f"file {file:,}"
        try:
            return shown(self.dataset.relpath(file)) or "(the root)"
        except FanstoreError:
            return f"file {file:,}"

    def files(self) -> Any:
        """Returns the record ids of all regular files; none if the index is missing."""
        if self.dataset is None:
            return np.empty(0, np.int64)
        return np.flatnonzero(are_files(self.dataset.records))

    def keepers(self, files: Any, askers: Any) -> Any:
        """Returns for each file the only rank besides the asking one that has it; NOBODY if there
        are several, or it is unknown. files, askers: have the same length."""
        found = np.full(len(files), NOBODY)
        if self.dataset is None:
            return found
        known = files < len(self.dataset.records)
        records = self.dataset.records[np.where(known, files, 0)]
        packs = np.where(known, records["pack"], len(self.pack_ranks))
        pairs, which = np.unique(np.stack([packs, askers]), axis=1, return_inverse=True)
        which = which.ravel()
        for number, (pack, asker) in enumerate(pairs.T):
            ranks = self.pack_ranks[pack] if pack < len(self.pack_ranks) else ()
            others = [rank for rank in ranks if rank != asker]
            if len(others) == 1:
                found[which == number] = others[0]
        return np.where(found == NOBODY, self._sharers(records, packs), found)

    def _sharers(self, records: Any, packs: Any) -> Any:
        """Returns the rank that keeps each record, if its pack is divided among ranks; otherwise
        NOBODY."""
        count = len(self.pack_ranks)
        if self.dataset is None or len(self.bounds) < 2 or count != self.dataset.pack_count:
            return np.full(len(records), NOBODY)
        sizes = [
            0 if ranks else self.dataset.pack_info(pack).file_bytes
            for pack, ranks in enumerate(self.pack_ranks)
        ]
        starts = np.r_[0, np.cumsum(sizes)]
        places = starts[packs] + records["offset"].astype(np.int64)
        ranks = np.searchsorted(np.array(self.bounds), places, side="right") - 1
        divided = np.r_[np.array(sizes) > 0, False][packs] & (ranks < len(self.bounds) - 1)
        return np.where(divided, ranks, NOBODY)


@contextmanager
def open_catalogue(trace: Trace, directories: Sequence[str] = ()) -> Iterator[list[CatalogueEntry]]:
    """Opens the indexes of a job's datasets. directories: the present directories of the datasets,
    in the job's order, if they were moved. Raises UsageError if one of these is not the job's."""
    told = trace.ranks[0].get("datasets", []) if trace.ranks else []
    told = told if isinstance(told, list) else []
    if len(directories) > len(told):
        raise UsageError(f"--dataset: the job had {len(told)}, and {len(directories)} are named")
    with ExitStack() as stack:
        yield [
            _entry(stack, each if isinstance(each, dict) else {}, directories[n : n + 1])
            for n, each in enumerate(told[:16])
        ]


def _entry(stack: ExitStack, told: dict[str, Any], elsewhere: Sequence[str]) -> CatalogueEntry:
    directory = elsewhere[0] if elsewhere else _text(told, "directory")
    dataset, why = None, ""
    try:
        dataset = stack.enter_context(_opened(directory, _text(told, "dataset_id")))
    except (FanstoreError, OSError) as error:
        if elsewhere:
            raise UsageError(f"--dataset: {error}") from None
        why = str(error)
    return CatalogueEntry(
        _escaped(_text(told, "name")),
        _escaped(_text(told, "mount_prefix")),
        dataset,
        _escaped(why),
        tuple(_numbers(each) for each in _list(told, "pack_ranks")),
        _numbers(_list(told, "bounds")),
    )


def _opened(directory: str, dataset_id: str) -> Dataset:
    if not directory:
        raise FanstoreError("the trace does not say where the dataset is")
    dataset = open_dataset(os.path.abspath(directory))
    if dataset.dataset_id != dataset_id:
        dataset.close()
        raise FanstoreError(f"{directory}: another dataset than the job's by now")
    dataset.check_records()
    return dataset


def _text(told: dict[str, Any], name: str) -> str:
    value = told.get(name, "")
    return value.replace("\0", "") if isinstance(value, str) else ""


def _escaped(text: str) -> str:
    return shown(text.encode("utf-8", "surrogatepass"))


def _list(told: dict[str, Any], name: str) -> list[Any]:
    value = told.get(name, [])
    return value if isinstance(value, list) else []


def _numbers(values: Any) -> tuple[int, ...]:
    good = isinstance(values, list) and all(type(v) is int and 0 <= v < 1 << 62 for v in values)
    return tuple(values) if good else ()
