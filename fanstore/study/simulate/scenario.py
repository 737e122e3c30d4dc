"""A scenario: the machine, the dataset and the job, from a TOML file (docs/simulator.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fanstore.plan.fields import Fields
from fanstore.plan.machine import JOB_KEYS, SYSTEM_KEYS, Job, System, read_job, read_system
from fanstore.study.simulate.sizes import DATASET_KEYS, Sizes, read_sizes


@dataclass(frozen=True)
class Scenario:
    """What is simulated: a machine, the sizes of the files of a dataset, and a job. file: the path
    of the file that says so, for messages; about: one line that describes it."""

    file: str
    about: str
    system: System
    sizes: Sizes
    job: Job


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
