"""What is asked of a plan: a machine and a job, from a scenario, or a machine file and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fanstore.config import load_toml, machine_file
from fanstore.dataset import Dataset, open_dataset
from fanstore.errors import UsageError
from fanstore.plan.description import RECORDED
from fanstore.plan.fields import Fields
from fanstore.plan.machine import (
    JOB_KEYS,
    SYSTEM_KEYS,
    Job,
    System,
    epochs_and_batch,
    read_job,
    read_system,
)
from fanstore.plan.samples import Samples
from fanstore.study.planning.recorded import recorded_order
from fanstore.study.simulate.library import changed, load
from fanstore.study.simulate.sizes import DATASET_KEYS
from fanstore.wording import counted

_PARTS = ("about", "system", "dataset", "job")
# A plan needs all of these keys; the option that gives each.
_NEEDED = {
    "nodes": "--nodes N", "ranks_per_node": "--ranks-per-node N", "compute": "--compute RATE",
    "preprocess": "--preprocess RATE", "network": "--set network=RATE", "epochs": "--epochs N",
    "batch": "--batch N", "order": "--order NAME",
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """file: for messages. system_table, job_table: as they stand in a scenario; system, job: the
    same, read."""

    file: str
    system_table: dict[str, Any]
    job_table: dict[str, Any]
    system: System
    job: Job


@dataclass(frozen=True)
class Options:
    """What the command line says. machine, scenario: paths, one of them at most. changes: as
    fanstore.study.simulate.library.changed takes them; sources: the option of each. order: its
    table, or None; recorded: the file of each rank."""

    machine: str | None
    scenario: str | None
    changes: Mapping[str, str]
    sources: Mapping[str, str]
    order: dict[str, Any] | None
    recorded: Sequence[Path]


def request_of(options: Options, dataset: Dataset, samples: Samples) -> Request:
    """Returns what is asked for a dataset. Raises UsageError with file, key and what is allowed."""
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
        return Request(file, system_table, job_table, system, job)
    fields = Fields(file, "job", job_table, JOB_KEYS, given)
    job = Job(*epochs_and_batch(fields), RECORDED, {})
    request = Request(file, system_table, job_table, system, job)
    return _recorded(request, options, dataset, samples)


def _check_complete(file: str, system: Mapping[str, Any], job: Mapping[str, Any]) -> None:
    """Raises UsageError that names the options of all that is missing."""
    known = {*system, *job, *(["network"] if system.get("nodes") == 1 else [])}
    missing = [option for key, option in _NEEDED.items() if key not in known]
    if missing:
        raise UsageError(f"{file} does not say all that a plan needs; add {' '.join(missing)}")


def _options_by_key(options: Options, system_table: Mapping[str, Any]) -> dict[str, str]:
    """The options that gave a value, by its full key; a storage class has the key of its place."""
    keys = {name: f"{'job' if name in JOB_KEYS else 'system'}.{name}" for name in options.changes}
    if "staging_buffer" in keys:
        keys["staging_buffer"] = "system.staging_buffer.capacity"
    classes = system_table.get("classes")
    for number, each in enumerate(classes if isinstance(classes, list) else []):
        if isinstance(each, dict) and each.get("name") in options.changes:
            keys[each["name"]] = f"system.classes[{number}].capacity"
    found = {key: options.sources[name] for name, key in keys.items()}
    return found if options.order is None else {**found, "job.order.name": "--order"}


def _tables(options: Options, dataset: Dataset) -> tuple[str, dict[str, Any]]:
    """The file that describes the machine, and its tables."""
    if options.scenario is not None:
        file, table = load(options.scenario)
        _check_same_dataset(file, table, dataset)
        return file, table
    path = machine_file() if options.machine is None else Path(options.machine)
    if options.machine is None and not path.is_file():
        raise UsageError(
            f"{path}: this machine was not measured; `fanstore calibrate` does, or name a machine "
            "with --machine, or a scenario with --scenario"
        )
    table = load_toml(path)
    if "job" in table or "dataset" in table:
        raise UsageError(f"{path}: has a job or a dataset; allowed: [system] alone, or --scenario")
    return str(path), table


def _check_same_dataset(file: str, table: Mapping[str, Any], dataset: Dataset) -> None:
    """Raises UsageError where a scenario is about other files than those of the dataset."""
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


def _recorded(request: Request, options: Options, dataset: Dataset, samples: Samples) -> Request:
    epochs = recorded_order(
        options.recorded, request.system.ranks, request.job.epochs, dataset, samples.records
    )
    order = {"name": RECORDED, "epochs": len(epochs)}
    return replace(
        request,
        job_table={**request.job_table, "order": order},
        job=replace(request.job, recorded=epochs),
    )
