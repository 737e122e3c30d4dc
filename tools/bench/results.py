"""The results of the suite, as data: one for each row, with its goals."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

OURS = "FanStore"
DIRECTORY = "directory"


@dataclass(frozen=True)
class Goal:
    """A goal: FanStore's time must be at most `than`'s time divided by `ratio`."""

    than: str
    ratio: float


@dataclass(frozen=True)
class Floor:
    """What no reader can do a row without, in words and nanoseconds. most_ns: FanStore's goal, if
    it has one: a few times the steps of the floor."""

    words: str
    ns: float
    most_ns: float | None = None


@dataclass
class Result:
    """One row: nanoseconds per unit of each peer, as medians over the repetitions.

    `spread_ns` holds the lowest and the highest. `key` names the row for --rows and --check."""

    section: str
    key: str
    title: str
    unit: str
    times_ns: dict[str, float]
    spread_ns: dict[str, tuple[float, float]] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    note: str = ""
    bytes_per_unit: int = 0
    processes: int = 1
    threads: int = 1
    floor: Floor | None = None

    @classmethod
    def of(
        cls, section: str, key: str, title: str, unit: str, times: Mapping[str, Sequence[float]],
        goals: Sequence[Goal] = (), note: str = "", **more: Any,
    ) -> Result:  # fmt: skip
        """Returns a row of the times of each peer: their medians, and the lowest and highest."""
        medians = {name: statistics.median(taken) for name, taken in times.items()}
        spread = {name: (min(taken), max(taken)) for name, taken in times.items()}
        return cls(section, key, title, unit, medians, spread, list(goals), note, **more)

    def above_floor(self) -> float | None:
        """Returns how many times its floor FanStore took; None if the row has none."""
        return None if self.floor is None else self.times_ns[OURS] / self.floor.ns

    def too_long(self) -> bool:
        """Returns whether FanStore took longer than the goal on the floor allows."""
        most_ns = None if self.floor is None else self.floor.most_ns
        return most_ns is not None and self.times_ns[OURS] > most_ns

    def ratio(self, than: str, of: str = OURS) -> float:
        """Returns how many times faster `of` is than `than`."""
        return self.times_ns[than] / self.times_ns[of]

    def missed(self) -> list[Goal]:
        """Returns the goals that are missed. A goal against a peer that took no part does not
        count."""
        known = [goal for goal in self.goals if {goal.than, OURS} <= self.times_ns.keys()]
        return [goal for goal in known if self.ratio(goal.than) < goal.ratio]


@dataclass
class Report:
    """A run of the suite: its rows, the peers that took no part and why, and the failures."""

    machine: dict[str, str]
    results: list[Result] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def find(self, key: str) -> Result | None:
        """Returns the row with that key."""
        return next((result for result in self.results if result.key == key), None)

    def write(self, path: Path) -> None:
        """Writes the report as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def read_report(path: Path) -> Report:
    """Returns a report that `write` wrote."""
    data: dict[str, Any] = json.loads(path.read_text())
    results = []
    for row in data["results"]:
        goals, floor = [Goal(**goal) for goal in row.pop("goals")], row.pop("floor", None)
        results.append(Result(**row, goals=goals, floor=Floor(**floor) if floor else None))
    return Report(data["machine"], results, data["skipped"], data["failed"])
