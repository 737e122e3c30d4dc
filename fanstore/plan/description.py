"""The description in a plan file, as JSON: its dataset, machine and job, and the expected times."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fanstore.plan.container import PlanDamaged
from fanstore.plan.fields import Fields
from fanstore.plan.machine import (
    JOB_KEYS,
    SYSTEM_KEYS,
    System,
    TrainingJob,
    read_job,
    read_system,
    source_names,
)
from fanstore.policy import checks

RECORDED = "recorded"  # stands for the name of an order

_KEYS = ("dataset", "system", "job", "kept", "expected")
_DATASET_KEYS = ("id", "under", "files", "bytes")
_EXPECTED_KEYS = (
    "epochs_s", "computed_s", "lower_bound_s", "source_bytes", "memory_max_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class ExpectedTimes:
    """The simulator's expectations. epochs_s: the time of each epoch; computed_s: the time of all
    epochs if nobody waits for a sample; lower_bound_s: of an epoch, S / (N c); source_bytes: bytes
    read, by source; memory_max_bytes: of the node that needs most."""

    epochs_s: list[float]
    computed_s: float
    lower_bound_s: float
    source_bytes: dict[str, int]
    memory_max_bytes: int

    @property
    def stall_s(self) -> float:
        """The time of the job in which its slowest rank computes nothing."""
        return max(0.0, sum(self.epochs_s) - self.computed_s)


@dataclass(frozen=True)
class PlanDescription:
    """A plan without its arrays. under: the directory of the dataset whose files are the samples.
    system_table, job_table: as they stand in a scenario. kept_files, kept_bytes: nodes x storage
    classes; kept_bytes is the most that the files take of the capacity."""

    dataset_id: str
    under: str
    files: int
    total_bytes: int
    system_table: dict[str, Any]
    job_table: dict[str, Any]
    system: System
    job: TrainingJob
    kept_files: list[list[int]]
    kept_bytes: list[list[int]]
    expected: ExpectedTimes

    @property
    def recorded_epochs(self) -> int:
        """How many epochs are recorded; 0 if the order is computed."""
        order = self.job_table["order"]
        return int(order["epochs"]) if self.job.order == RECORDED else 0

    def encode(self) -> bytes:
        """Returns the description as JSON; equal descriptions give equal bytes."""
        expected = self.expected
        table = {
            "dataset": {
                "id": self.dataset_id,
                "under": self.under,
                "files": self.files,
                "bytes": self.total_bytes,
            },
            "system": self.system_table,
            "job": self.job_table,
            "kept": {"files": self.kept_files, "bytes": self.kept_bytes},
            "expected": {key: getattr(expected, key) for key in _EXPECTED_KEYS},
        }
        text = json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return text.encode()


def decode(path: Path, content: bytes, offset: int) -> PlanDescription:
    """Returns the description in the JSON of a plan file. Raises PlanDamaged if it is no JSON, and
    UsageError with file, key and what is allowed for any other mistake."""
    try:
        table = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise PlanDamaged(path, "description[0]", offset, f"no JSON ({error})") from None
    file = str(path)
    fields = Fields(file, "", table, _KEYS)
    dataset = fields.table("dataset", _DATASET_KEYS)
    system = read_system(fields.table("system", SYSTEM_KEYS))
    job_fields = fields.table("job", JOB_KEYS)
    job = _job(file, job_fields)
    kept = fields.table("kept", ("files", "bytes"))
    return PlanDescription(
        _dataset_id(dataset),
        dataset.text("under"),
        dataset.integer("files", 1, checks.SAMPLES_MAX),
        dataset.integer("bytes", 0, checks.BYTES_MAX),
        table["system"],
        table["job"],
        system,
        job,
        _matrix(kept, "files", system),
        _matrix(kept, "bytes", system),
        _expected(fields.table("expected", _EXPECTED_KEYS), system, job),
    )


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _dataset_id(fields: Fields) -> str:
    text = fields.text("id")
    if not re.fullmatch("[0-9a-f]{32}", text):
        raise fields.wrong("id", f"is {text!r}", "32 hexadecimal digits")
    return text


def _job(file: str, fields: Fields) -> TrainingJob:
    order = fields.value("order", "a table with a name")
    if not isinstance(order, dict) or order.get("name") != RECORDED:
        return read_job(file, fields)
    of_order = fields.table("order", ("name", "epochs"))
    epochs = fields.integer("epochs", 1)
    if of_order.integer("epochs", 1) not in (1, epochs):
        raise of_order.wrong("epochs", f"is {order['epochs']}", f"1, or {epochs}, those of the job")
    return TrainingJob(epochs, fields.integer("batch", 1), RECORDED, {})


def _matrix(fields: Fields, key: str, system: System) -> list[list[int]]:
    """Returns one integer from 0 on for each node and storage class."""
    allowed = f"{system.nodes} x {len(system.classes)} integers, 0 or more"
    rows = fields.value(key, allowed)
    shape = [len(system.classes)] * system.nodes if _is_list(rows, system.nodes) else None
    if shape is None or [len(row) if isinstance(row, list) else -1 for row in rows] != shape:
        raise fields.wrong(key, "has another shape", allowed)
    try:
        return [[checks.integer(key, value, 0, checks.BYTES_MAX) for value in row] for row in rows]
    except ValueError as error:
        raise fields.wrong(key, f"is wrong ({error})", allowed) from None


def _is_list(value: object, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _expected(fields: Fields, system: System, job: TrainingJob) -> ExpectedTimes:
    return ExpectedTimes(
        _amounts(fields, "epochs_s", job.epochs),
        _amount(fields, "computed_s"),
        _amount(fields, "lower_bound_s"),
        _bytes_by_source(fields, system),
        fields.integer("memory_max_bytes", 0),
    )


def _amount(fields: Fields, key: str) -> float:
    allowed = "a number of seconds, 0 or more"
    try:
        return checks.amount(key, fields.value(key, allowed))
    except (ValueError, OverflowError):
        raise fields.wrong(key, "is none", allowed) from None


def _amounts(fields: Fields, key: str, count: int) -> list[float]:
    allowed = f"{count} numbers of seconds, 0 or more"
    values = fields.value(key, allowed)
    try:
        if not _is_list(values, count):
            raise ValueError
        return [checks.amount(key, value) for value in values]
    except (ValueError, OverflowError):
        raise fields.wrong(key, "is something else", allowed) from None


def _bytes_by_source(fields: Fields, system: System) -> dict[str, int]:
    names = source_names(system)
    key, allowed = "source_bytes", f"bytes, 0 or more, of each of {', '.join(names)}"
    values = fields.value(key, allowed)
    try:
        if not isinstance(values, dict) or set(values) != set(names):
            raise ValueError
        return {name: checks.integer(name, values[name], 0) for name in names}
    except ValueError:
        raise fields.wrong(key, f"is {values!r}", allowed) from None
