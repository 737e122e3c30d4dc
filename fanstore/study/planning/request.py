"""The machine, job and orders for which a plan is made: from a scenario, or from a machine file and
options; recorded orders from one file for each rank, of numbers or of names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore.arrays import np
from fanstore.config import load_toml, machine_file
from fanstore.dataset import Dataset, open_dataset
from fanstore.errors import UsageError
from fanstore.plan.description import RECORDED
from fanstore.plan.fields import Fields
from fanstore.plan.machine import (
    JOB_KEYS,
    SYSTEM_KEYS,
    System,
    TrainingJob,
    epochs_and_batch,
    read_job,
    read_system,
)
from fanstore.plan.samples import Samples
from fanstore.study.simulate.library import changed, load
from fanstore.study.simulate.scenario import DATASET_KEYS
from fanstore.wording import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALLOWED = (
    "a NumPy file of integers (reads, or epochs x reads), or a text with a number or a path on "
    "each line and an empty line between epochs"
)

Epochs = list["NDArray[np.uint32]"]  # the reads of one rank


def recorded_order(
    paths: Sequence[Path], ranks: int, epochs: int, dataset: Dataset, records: NDArray[np.int64]
) -> tuple[list[NDArray[Any]], ...]:
    """Returns the reads of each rank in each epoch (epochs x ranks), as numbers of samples.

    paths: a file for each rank. records: the record of each sample. Raises UsageError, which names
    the file, if it is no such file, or does not fit the ranks, epochs or samples."""
    if len(paths) != ranks:
        raise UsageError(f"--recorded: {len(paths)} files for {ranks} ranks; allowed: one for each")
    by_rank = [_epochs_of(path, dataset, records) for path in paths]
    for path, each in zip(paths, by_rank, strict=True):
        if len(each) not in (1, epochs) or len(each) != len(by_rank[0]):
            raise UsageError(
                f"{path}: {len(each)} epochs are recorded; allowed: {epochs}, or 1 that is "
                "repeated, and the same for all ranks"
            )
    return tuple(list(epoch) for epoch in zip(*by_rank, strict=True))


def _epochs_of(path: Path, dataset: Dataset, records: NDArray[np.int64]) -> Epochs:
    found = _from_numpy(path) if path.suffix == ".npy" else _from_text(path, dataset, records)
    for number, reads in enumerate(found):
        if not len(reads):
            raise UsageError(f"{path}: epoch {number} is empty; allowed: {_ALLOWED}")
        if reads.min() < 0 or reads.max() >= len(records):
            wrong = int(reads.max() if reads.min() >= 0 else reads.min())
            raise UsageError(
                f"{path}: epoch {number} reads sample {wrong}, and the dataset has "
                f"{len(records):,}; allowed: 0 to {len(records) - 1}"
            )
    return [reads.astype(np.uint32) for reads in found]


def _from_numpy(path: Path) -> list[NDArray[Any]]:
    try:
        array = np.load(path, allow_pickle=False, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise UsageError(f"{path}: {error}; allowed: {_ALLOWED}") from None
    if (
        not isinstance(array, np.ndarray)
        or array.dtype.kind not in "iu"
        or array.ndim not in (1, 2)
    ):
        raise UsageError(f"{path}: no one or two dimensions of integers; allowed: {_ALLOWED}")
    return list(np.atleast_2d(array))


def _from_text(path: Path, dataset: Dataset, records: NDArray[np.int64]) -> list[NDArray[Any]]:
    known: dict[bytes, int] = {}
    epochs: list[list[int]] = [[]]
    for number, line in _lines(path):
        if not line:
            epochs.append([])
            continue
        sample = known.get(line)
        if sample is None:
            sample = known[line] = _sample(f"{path}:{number}", line, dataset, records)
        epochs[-1].append(sample)
    if len(epochs) > 1 and not epochs[-1]:
        epochs.pop()  # the part behind the last empty line
    return [np.array(reads, dtype=np.int64) for reads in epochs]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            yield number, line.rstrip(b"\r\n")


def _sample(where: str, line: bytes, dataset: Dataset, records: NDArray[np.int64]) -> int:
    if line.isdigit() and len(line) < 19:
        return int(line)
    parts = [part for part in line.split(b"/") if part not in (b"", b".")]
    try:
        record = dataset.lookup(b"/".join(parts))
    except FileNotFoundError:
        record = -1
    place = int(np.searchsorted(records, record))
    if place == len(records) or records[place] != record:
        raise UsageError(f"{where}: {os.fsdecode(line)!r} is no file of the samples of this plan")
    return place


_PARTS = ("about", "system", "dataset", "job")
# The keys that a plan needs, each with the option that sets it.
_NEEDED = {
    "nodes": "--nodes N", "ranks_per_node": "--ranks-per-node N", "compute": "--compute RATE",
    "preprocess": "--preprocess RATE", "network": "--set network=RATE", "epochs": "--epochs N",
    "batch": "--batch N", "order": "--order NAME",
}  # fmt: skip


@dataclass(frozen=True)
class PlanRequest:
    """The input for a plan. file: its name in messages. system_table, job_table: the tables as in a
    scenario; system, job: the same tables, parsed."""

    file: str
    system_table: dict[str, Any]
    job_table: dict[str, Any]
    system: System
    job: TrainingJob


@dataclass(frozen=True)
class PlanOptions:
    """The options of the command line. machine, scenario: paths; at most one is given. changes: in
    the form for fanstore.study.simulate.library.changed; sources: the option of each change. order:
    its table, or None; recorded: the file of each rank."""

    machine: str | None
    scenario: str | None
    changes: Mapping[str, str]
    sources: Mapping[str, str]
    order: dict[str, Any] | None
    recorded: Sequence[Path]


def request_of(options: PlanOptions, dataset: Dataset, samples: Samples) -> PlanRequest:
    """Returns the request for a plan. Raises UsageError with file, key and what is allowed."""
    file, table = _tables(options, dataset)
    Fields(file, "", table, _PARTS)
    table = changed(file, table, options.changes)
    system_table = dict(table.get("system", {}))
    job_table = dict(table.get("job", {}))
    if options.recorded:
        job_table["order"] = {"name": RECORDED}
    elif options.order is not None:
        job_table["order"] = options.order
    given = _options_by_key(options, system_table)
    system_fields = Fields(file, "system", system_table, SYSTEM_KEYS, given)
    _check_complete(file, system_table, job_table)
    system, files = read_system(system_fields), len(samples.records)
    if system.ranks > files and not options.recorded:
        what = f"makes {counted(system.ranks, 'rank')}, which is more than {counted(files, 'file')}"
        raise system_fields.wrong("nodes", what, "as many ranks as files, or fewer")
    if not options.recorded:
        source = "" if options.order is None else "--order"
        job = read_job(file, Fields(file, "job", job_table, JOB_KEYS, given), source)
        _check_scalars(file, job.order_parameters)
        return PlanRequest(file, system_table, job_table, system, job)
    fields = Fields(file, "job", job_table, JOB_KEYS, given)
    job = TrainingJob(*epochs_and_batch(fields), RECORDED, {})
    request = PlanRequest(file, system_table, job_table, system, job)
    return _recorded(request, options, dataset, samples)


def _check_complete(file: str, system: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    """Raises UsageError, which names the options for all missing values."""
    known = {*system, *job, *(["network"] if system.get("nodes") == 1 else [])}
    missing = [option for key, option in _NEEDED.items() if key not in known]
    if missing:
        raise UsageError(f"{file} does not say all that a plan needs; add {' '.join(missing)}")


def _options_by_key(options: PlanOptions, system_table: Mapping[str, Any]) -> dict[str, str]:
    """Returns the option that set each value, by the value's full key; the key of a storage class
    includes its position."""
    keys = {name: f"{'job' if name in JOB_KEYS else 'system'}.{name}" for name in options.changes}
    if "staging_buffer" in keys:
        keys["staging_buffer"] = "system.staging_buffer.capacity"
    classes = system_table.get("classes")
    for number, each in enumerate(classes if isinstance(classes, list) else []):
        if isinstance(each, dict) and each.get("name") in options.changes:
            keys[each["name"]] = f"system.classes[{number}].capacity"
    found = {key: options.sources[name] for name, key in keys.items()}
    return found if options.order is None else {**found, "job.order.name": "--order"}


def _tables(options: PlanOptions, dataset: Dataset) -> tuple[str, dict[str, Any]]:
    """Returns the name of the file that describes the machine, and its tables."""
    if options.scenario is not None:
        file, table = load(options.scenario)
        _check_same_dataset(file, table, dataset)
        return file, table
    path = machine_file() if options.machine is None else Path(options.machine)
    if options.machine is None and not path.is_file():
        raise UsageError(
            f"{path}: this machine was not measured; `fanstore study calibrate` does, or name a "
            "machine with --machine, or a scenario with --scenario"
        )
    table = load_toml(path)
    if "job" in table or "dataset" in table:
        raise UsageError(f"{path}: has a job or a dataset; allowed: [system] alone, or --scenario")
    return str(path), table


def _check_same_dataset(file: str, table: Mapping[str, Any], dataset: Dataset) -> None:
    """Raises UsageError if a scenario describes another dataset."""
    if "dataset" not in table:
        return
    fields = Fields(file, "dataset", table["dataset"], DATASET_KEYS)
    fields.text("sizes", ("dataset",))
    path = Path(file).parent / fields.text("path")
    with open_dataset(path) as named:
        if named.dataset_id != dataset.dataset_id:
            raise fields.wrong("path", f"is another dataset ({path})", str(dataset.directory))


def _check_scalars(file: str, parameters: Mapping[str, Any]) -> None:
    for key, value in parameters.items():
        if not isinstance(value, bool | int | float | str):
            what = f"is {value!r}"
            raise Fields(file, "job.order", {}, ()).wrong(key, what, "a number, a text or a flag")


def _recorded(
    request: PlanRequest, options: PlanOptions, dataset: Dataset, samples: Samples
) -> PlanRequest:
    epochs = recorded_order(
        options.recorded, request.system.ranks, request.job.epochs, dataset, samples.records
    )
    order = {"name": RECORDED, "epochs": len(epochs)}
    return replace(
        request,
        job_table={**request.job_table, "order": order},
        job=replace(request.job, recorded=epochs),
    )
