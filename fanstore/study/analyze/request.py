"""What is to be analysed: a job, and how long."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fanstore.dataset import INDEX_NAME

# Of the options of `fanstore run`, those that say where bytes lie and when they come: in phases
# that say so themselves, the user's are left out.
_STAGING = (
    "stage", "in_place", "plan", "local_bytes", "local_dir", "replicas", "keep_staged", "order",
    "cache_policy", "verify",
)  # fmt: skip
OF_THE_JOB = ("job", "ingest", "prepare")  # phases that run its command
# By phase, the options of `fanstore run` that it has instead of the user's. From storage: a node
# keeps nothing but the indexes, so that each read is one of the node daemon's from the packs.
INSTEAD: Mapping[str, tuple[str, ...]] = {
    "prepare": ("--stage", "memory"),
    "storage": (
        "--stage", "lazy", "--local-bytes", "INDEXES", "--cache-policy", "none", "--order", "off",
    ),
    "cache": ("--stage", "memory", "--order", "off"),
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """datasets: directories. options: of `fanstore run`, by the setting, as they were written;
    steps: how many are measured in each phase. limit_s: how long a phase may take. launcher: words
    that start several ranks, such as those of srun. aside: what the job writes is kept from its
    real place. ingest: what training consumes (samples/s), where that is known."""

    datasets: tuple[str, ...]
    options: tuple[tuple[str, tuple[str, ...]], ...]
    command: tuple[str, ...]
    steps: int
    limit_s: float
    launcher: tuple[str, ...] = ()
    aside: bool = True
    ingest: float | None = None

    def words(self, phase: str, directory: str, command: Sequence[str]) -> list[str]:
        """Returns the command line of a phase, whose files go to a directory."""
        indexes = str(sum((Path(each) / INDEX_NAME).stat().st_size for each in self.datasets))
        instead = [indexes if word == "INDEXES" else word for word in INSTEAD.get(phase, ())]
        left_out = {*(_STAGING if instead else ()), "output_dir", "quiet"}
        kept = [word for name, words in self.options if name not in left_out for word in words]
        own = ["--output-dir", f"{directory}/outputs", "--trace", f"{directory}/trace", "--quiet"]
        run = [sys.executable, "-m", "fanstore", "run"]
        if self.aside and phase in OF_THE_JOB:
            command = [
                sys.executable,
                "-m",
                "fanstore.study.analyze.aside",
                directory,
                "--",
                *command,
            ]
        return [*self.launcher, *run, *kept, *instead, *own, "--", *command]

    def environ(self, phase: str) -> dict[str, str]:
        """Returns the environment of a phase, without settings that it has of its own."""
        variables = {"FANSTORE_" + name.upper() for name in _STAGING} if phase in INSTEAD else set()
        kept = {name: text for name, text in os.environ.items() if name not in variables}
        kept["FANSTORE_KEEP_LEARNT"] = "off"  # an analysis leaves nothing beside the dataset
        if phase in INSTEAD:
            kept["FANSTORE_IN_PLACE"] = "off"  # also where the settings file says otherwise
        return kept
