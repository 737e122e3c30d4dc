"""What a simulation gives."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """What a policy did.

    startup_s: loading before the first epoch. computed_s: what the epochs take when nobody waits
    for a sample. source_bytes: what was read, by source. memory_max_bytes: of the node that needs
    most: its first storage class and the staging buffers of its ranks. covered: which part of the
    bytes of the dataset is read at all.
    """

    epochs_s: list[float]
    startup_s: float
    computed_s: float
    source_bytes: dict[str, int]
    startup_bytes: int
    memory_max_bytes: int
    covered: float

    @property
    def total_s(self) -> float:
        """The time of the whole job."""
        return self.startup_s + sum(self.epochs_s)

    @property
    def first_epoch_s(self) -> float:
        """The time to the end of the first epoch."""
        return self.startup_s + self.epochs_s[0]

    @property
    def stall_share(self) -> float:
        """Which part of the time of the job is no computing."""
        return max(0.0, 1 - self.computed_s / self.total_s) if self.total_s else 0.0

    @property
    def source_shares(self) -> dict[str, float]:
        """Which part of the bytes came from each source."""
        total = max(1, sum(self.source_bytes.values()))
        return {name: count / total for name, count in self.source_bytes.items()}

    def as_dict(self) -> dict[str, Any]:
        """Returns all of it for JSON."""
        return {
            "total_s": self.total_s,
            "startup_s": self.startup_s,
            "first_epoch_s": self.first_epoch_s,
            "median_epoch_s": median(self.epochs_s),
            "epochs_s": self.epochs_s,
            "stall_share": self.stall_share,
            "source_bytes": self.source_bytes,
            "source_shares": self.source_shares,
            "startup_bytes": self.startup_bytes,
            "memory_max_bytes": self.memory_max_bytes,
            "covered": self.covered,
        }


@dataclass(frozen=True)
class Simulation:
    """policies: by name what each did, or why it cannot run. lower_bound_s: of an epoch, S / (N c)
    of the files that were drawn."""

    files: int
    dataset_bytes: int
    ranks: int
    epochs: int
    lower_bound_s: float
    policies: dict[str, Outcome | str]

    def as_dict(self) -> dict[str, Any]:
        """Returns all of it for JSON."""
        policies = {
            name: {"cannot_run": each} if isinstance(each, str) else each.as_dict()
            for name, each in self.policies.items()
        }
        return {
            "files": self.files,
            "dataset_bytes": self.dataset_bytes,
            "ranks": self.ranks,
            "epochs": self.epochs,
            "lower_bound_epoch_s": self.lower_bound_s,
            "policies": policies,
        }
