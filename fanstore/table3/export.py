"""Exports a dataset as partition files in the Table 3 layout, one for each pack."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from fanstore.arrays import np
from fanstore.atomic import Destination, check_destination, make_whole
from fanstore.dataset import Dataset, are_files
from fanstore.decoding import ContentDamaged, PackReader
from fanstore.errors import SHOWN_MAX, DatasetDamaged, UsageError, show_path
from fanstore.table3.layout import (
    COUNT_BYTES,
    COUNT_MAX,
    NAME_BYTES,
    FileHeader,
    pack_file_header,
)


def partition_name(pack: int) -> str:
    """Returns the file name of the partition that holds a pack's files: partition-00000.table3."""
    return f"partition-{pack:05d}.table3"


@dataclass
class Exported:
    """The result of an export. `left_out` holds (relpath, reason) of entries that the layout cannot
    hold."""

    files: int = 0
    partitions: int = 0
    left_out: list[tuple[bytes, str]] = field(default_factory=list)


def left_out_of(dataset: Dataset) -> list[tuple[bytes, str]]:
    """Returns the symbolic links and empty directories of a dataset. The layout has only files;
    directories follow from the paths of files."""
    kinds = dataset.records["mode"] & 0o170000
    links = np.flatnonzero(kinds == stat.S_IFLNK).tolist()
    empty = (kinds == stat.S_IFDIR) & (dataset.records["stored_size"] == 0)
    empty[0] = False
    found = [(dataset.relpath(record), "is a symbolic link") for record in links]
    found += [
        (dataset.relpath(record), "is an empty directory")
        for record in np.flatnonzero(empty).tolist()
    ]
    return sorted(found)


def _check_names(dataset: Dataset) -> None:
    """Raises UsageError for names that are too long for the layout, and lists them."""
    files = np.flatnonzero(are_files(dataset.records)).tolist()
    paths = (dataset.relpath(record) for record in files)
    long = [path for path in paths if len(path) >= NAME_BYTES]
    if long:
        shown = "\n  ".join(show_path(path) for path in long[:SHOWN_MAX])
        raise UsageError(
            f"{len(long)} names are longer than the {NAME_BYTES - 1} bytes of the Table 3 layout; "
            f"nothing was written\n  {shown}"
        )


class Exporter:
    """Writes the partitions, one for each pack. Calls `advance` with the number of bytes
    written."""

    def __init__(self, dataset: Dataset, advance: Callable[[int], object]) -> None:
        self._dataset = dataset
        self._advance = advance

    def write(self, pack: int, out: BinaryIO) -> int:
        """Writes one partition. Returns the number of files in it."""
        dataset = self._dataset
        ids = np.fromiter(dataset.records_of_pack(pack), np.int64)
        ids = ids[np.argsort(dataset.records["offset"][ids], kind="stable")]
        if len(ids) > COUNT_MAX:
            raise UsageError(f"pack {pack} holds {len(ids)} files, and at most {COUNT_MAX} fit")
        out.write(len(ids).to_bytes(COUNT_BYTES, "little"))
        with PackReader(dataset, dataset.pack_path(pack)) as reader:
            for record in ids.tolist():
                out.write(pack_file_header(self._header(record)))
                self._copy(record, reader, out)
        return len(ids)

    def _header(self, record: int) -> FileHeader:
        row = self._dataset.records[record]
        return FileHeader(
            self._dataset.relpath(record), int(row["logical_size"]), int(row["mode"]),
            int(row["mtime_ns"]), *self._dataset.owner(record),
            self._dataset.first_name(record) + 2, int(row["nlink"]),
        )  # fmt: skip

    def _copy(self, record: int, reader: PackReader, out: BinaryIO) -> None:
        try:
            for piece in reader.pieces(record):
                out.write(piece)
                self._advance(len(piece))
        except ContentDamaged as error:
            row = self._dataset.records[record]
            path = show_path(self._dataset.relpath(record))
            raise DatasetDamaged(
                self._dataset.pack_path(int(row["pack"])), f"content of {path}",
                int(row["offset"]), "the checksum does not match",
            ) from error  # fmt: skip


def export_table3(
    dataset: Dataset,
    destination: Path,
    force: bool = False,
    advance: Callable[[int], object] = lambda amount_bytes: None,
) -> Exported:
    """Writes all regular files of a dataset to partitions in the new directory `destination`, which
    appears only when it is complete. Every name of a hard-linked file gets the data.

    Raises UsageError naming the names that do not fit the layout, DatasetDamaged, OSError."""
    check_destination(destination, [dataset.directory], force, partition_name(0))
    dataset.check_records()
    _check_names(dataset)
    exported = Exported(left_out=left_out_of(dataset))
    exporter = Exporter(dataset, advance)

    def work(made: Destination) -> Exported:
        for pack in range(dataset.pack_count):
            with (made.directory / partition_name(pack)).open("xb") as out:
                exported.files += exporter.write(pack, out)
            exported.partitions += 1
        made.sync()
        made.commit()
        return exported

    return make_whole(destination, force, work)
