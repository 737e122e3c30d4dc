"""A scenario: the machine, the dataset with the sizes of its files, and the job, from a TOML file
(docs/simulator.md)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.errors import UsageError
from fanstore.policy.checks import BYTES_MAX, SAMPLES_MAX
from fanstore.study.fields import Fields, numbers_of_file
from fanstore.study.machine import JOB_KEYS, SYSTEM_KEYS, System, TrainingJob, read_job, read_system

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEGATIVE = ("zero", "redraw", "refuse")

# The other keys of the table [dataset], by the value of its key `sizes`.
_KINDS = {
    "fixed": ("files", "size"),
    "normal": ("files", "mean", "deviation", "negative", "seed"),
    "list": ("list",),
    "dataset": ("path",),
}
_ALLOWED = f"the size of a file in bytes on each line, 0 to {BYTES_MAX:,}"
DATASET_KEYS = ("sizes", *dict.fromkeys(key for keys in _KINDS.values() for key in keys))


@dataclass(frozen=True)
class Sizes:
    """A source of file sizes. draw: returns the bytes of each file (files), the same in each call;
    raises UsageError if a list or a dataset cannot be read."""

    kind: str
    draw: Callable[[], NDArray[np.int64]]


def read_sizes(file: str, fields: Fields) -> Sizes:
    """Returns the sizes that a table [dataset] describes. Paths in it are relative to the
    scenario's file."""
    kind = fields.text("sizes", tuple(_KINDS))
    for key in DATASET_KEYS[1:]:
        if key in fields and key not in _KINDS[kind]:
            raise fields.wrong(
                key, f"has no meaning with sizes = {kind!r}", ", ".join(_KINDS[kind])
            )
    read = {"fixed": _fixed, "normal": _normal, "list": _listed, "dataset": _dataset}[kind]
    return Sizes(kind, read(Path(file).parent, fields))


def _fixed(_: Path, fields: Fields) -> Callable[[], NDArray[np.int64]]:
    files, size = fields.integer("files", 1, SAMPLES_MAX), fields.size_bytes("size")
    return lambda: np.full(files, size, dtype=np.int64)


def _normal(_: Path, fields: Fields) -> Callable[[], NDArray[np.int64]]:
    files, seed = fields.integer("files", 1, SAMPLES_MAX), fields.integer("seed", 0)
    mean, deviation = fields.size_bytes("mean"), fields.size_bytes("deviation")
    negative = fields.text("negative", NEGATIVE)

    def draw() -> NDArray[np.int64]:
        rng = np.random.default_rng(seed)
        drawn = rng.normal(mean, deviation, files)
        below = np.flatnonzero(drawn < 0)
        if negative == "refuse" and below.size:
            what = f"is 'refuse', and {below.size:,} of {files:,} sizes are below 0"
            raise fields.wrong("negative", what, "zero (these files are empty), redraw")
        while negative == "redraw" and below.size:
            drawn[below] = rng.normal(mean, deviation, below.size)
            below = below[drawn[below] < 0]
        return np.rint(np.maximum(drawn, 0)).astype(np.int64)

    return draw


def _listed(folder: Path, fields: Fields) -> Callable[[], NDArray[np.int64]]:
    fields.text("list")

    def draw() -> NDArray[np.int64]:
        sizes = numbers_of_file(fields, "list", folder, _bytes, _ALLOWED)
        if not sizes:
            raise fields.wrong("list", "names a file without sizes", _ALLOWED)
        if sum(sizes) > BYTES_MAX:
            raise fields.wrong("list", f"has {sum(sizes):,} bytes together", f"up to {BYTES_MAX:,}")
        return np.array(sizes, dtype=np.int64)

    return draw


def _bytes(text: str) -> int:
    if not re.fullmatch("[0-9]{1,19}", text) or int(text) > BYTES_MAX:
        raise ValueError
    return int(text)


def _dataset(folder: Path, fields: Fields) -> Callable[[], NDArray[np.int64]]:
    path = folder / fields.text("path")

    def draw() -> NDArray[np.int64]:
        from fanstore.dataset import are_files, open_dataset

        with open_dataset(path) as dataset:
            records: Any = dataset.records
            sizes: NDArray[np.int64] = records["logical_size"][are_files(records)].astype(np.int64)
        if not len(sizes):
            raise UsageError(f"{path}: the dataset has no files")
        return sizes

    return draw


@dataclass(frozen=True)
class Scenario:
    """A simulation's input: a machine, the sizes of the files of a dataset, and a job. file: the
    path of the scenario's file, for messages; about: one line that describes it."""

    file: str
    about: str
    system: System
    sizes: Sizes
    job: TrainingJob


def scenario_from(file: str, table: dict[str, Any]) -> Scenario:
    """Returns the scenario that the table of a TOML file describes. file: its path, to which paths
    in it are relative. Raises UsageError, which names the file, the key and what is allowed."""
    fields = Fields(file, "", table, ("about", "system", "dataset", "job"))
    return Scenario(
        file,
        fields.text("about"),
        read_system(fields.table("system", SYSTEM_KEYS)),
        read_sizes(file, fields.table("dataset", DATASET_KEYS)),
        read_job(file, fields.table("job", JOB_KEYS)),
    )
