"""The results of a simulation, and tables of them for people: times and steps in 80 columns, and
sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from fanstore.study.simulate.steps import StepFigures
from fanstore.wording import counted, show_bytes


@dataclass(frozen=True)
class PolicyOutcome:
    """The results of a policy in a scenario. Times are in seconds.

    epochs_s: how long each epoch takes. startup_s: how long files are loaded before the first one,
    and startup_bytes their bytes. computed_s: how long the epochs take if nobody waits for a
    sample. source_bytes: the bytes that ranks read in the epochs, by the name of the source; empty
    if reading takes no time. memory_max_bytes: the need of the node that needs most, for its first
    storage class and the staging buffers of its ranks. covered: the part of the dataset's bytes
    that is read at all, 0 to 1. samples, read_bytes: consumed by all ranks in all epochs.
    """

    epochs_s: list[float]
    startup_s: float
    computed_s: float
    source_bytes: dict[str, int]
    startup_bytes: int
    memory_max_bytes: int
    covered: float
    samples: int
    read_bytes: int
    steps: StepFigures

    @property
    def total_s(self) -> float:
        """The time of the whole job, including the loading before its first epoch."""
        return self.startup_s + sum(self.epochs_s)

    @property
    def first_epoch_s(self) -> float:
        """The time until the end of the first epoch."""
        return self.startup_s + self.epochs_s[0]

    @property
    def samples_per_s(self) -> float:
        """The throughput of the whole job in samples/s: all samples, divided by total_s."""
        return self.samples / self.total_s if self.total_s else 0.0

    @property
    def bytes_per_s(self) -> float:
        """The throughput of the whole job in bytes/s: all bytes, divided by total_s."""
        return self.read_bytes / self.total_s if self.total_s else 0.0

    @property
    def stall_share(self) -> float:
        """The part of total_s in which the slowest rank computes nothing, 0 to 1."""
        return max(0.0, 1 - self.computed_s / self.total_s) if self.total_s else 0.0

    @property
    def source_shares(self) -> dict[str, float]:
        """The part of the bytes that came from each source, 0 to 1."""
        total = max(1, sum(self.source_bytes.values()))
        return {name: count / total for name, count in self.source_bytes.items()}

    def as_dict(self) -> dict[str, Any]:
        """Returns all figures, by their names in the output for programs (JSON)."""
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
            "samples_per_s": self.samples_per_s,
            "bytes_per_s": self.bytes_per_s,
            "steps": self.steps.count,
            "slow_steps": self.steps.slow,
            "warm_up_steps": self.steps.warm_up,
            "warm_up_s": self.steps.warm_up_s,
        }


@dataclass(frozen=True)
class Simulation:
    """The results of all policies in one scenario.

    policies: by name the results, or the reason why it cannot run. lower_bound_s: the least time of
    an epoch, S / (N c) in NoPFS' letters: the bytes of the files by the computing rate of all
    ranks.
    """

    files: int
    dataset_bytes: int
    ranks: int
    epochs: int
    lower_bound_s: float
    policies: dict[str, PolicyOutcome | str]

    def as_dict(self) -> dict[str, Any]:
        """Returns all results, by their names in the output for programs (JSON)."""
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


_TIMES = ("policy", "first epoch", "median", "total", "stall")
_MEMORY, _CACHE = "memory", "min. cache"
_STEPS = ("policy", "samples/s", "bytes/s", "steps", "slow", "warm-up")
_SOURCES = ("policy", "loaded from")

_Row = tuple[str, ...]


def show_s(seconds: float) -> str:
    """Returns a time as text for people: in seconds, from two hours on in hours."""
    if seconds >= 7200:
        return f"{seconds / 3600:,.2f} h"
    return f"{seconds:,.2f} s" if seconds < 1000 else f"{seconds:,.0f} s"


def lines_of(
    simulation: Simulation, min_caches: Mapping[str, int | str] | None, everything: bool
) -> list[str]:
    """Returns the lines of a table of the policies that can run, and then the reasons why others
    cannot. min_caches: from engine.min_caches, instead of the memory. everything: two more tables,
    steps and sources."""
    policies = simulation.policies.items()
    ran = {name: each for name, each in policies if isinstance(each, PolicyOutcome)}
    reasons = {name: each for name, each in policies if isinstance(each, str)}
    head = (
        f"{counted(simulation.files, 'file')}, {show_bytes(simulation.dataset_bytes)}; "
        f"{counted(simulation.ranks, 'rank')}, {counted(simulation.epochs, 'epoch')}; "
        f"an epoch takes {show_s(simulation.lower_bound_s)} or more"
    )
    lines = [head, ""]
    if ran:
        last = _MEMORY if min_caches is None else _CACHE
        times = [_times(name, each, min_caches) for name, each in ran.items()]
        lines += _aligned([(*_TIMES, last), *times])
    if ran and everything:
        lines += ["", *_aligned([_STEPS, *(_steps(name, each) for name, each in ran.items())])]
        sources = [(name, _sources(each)) for name, each in ran.items()]
        lines += ["", *_aligned([_SOURCES, *sources])]
    if ran and reasons:
        lines.append("")
    return [*lines, *(f"{name} cannot run: {reason}" for name, reason in reasons.items())]


def _times(name: str, outcome: PolicyOutcome, caches: Mapping[str, int | str] | None) -> _Row:
    room = outcome.memory_max_bytes if caches is None else caches[name]
    return (
        name,
        show_s(outcome.first_epoch_s),
        show_s(median(outcome.epochs_s)),
        show_s(outcome.total_s),
        f"{100 * outcome.stall_share:.1f} %",
        show_bytes(room) if isinstance(room, int) else "-",
    )


def _steps(name: str, outcome: PolicyOutcome) -> _Row:
    steps = outcome.steps
    return (
        name,
        f"{outcome.samples_per_s:,.{0 if outcome.samples_per_s >= 10 else 2}f}",
        show_bytes(outcome.bytes_per_s),
        f"{steps.count:,}",
        f"{steps.slow:,}",
        f"{steps.warm_up:,}",
    )


def _sources(outcome: PolicyOutcome) -> str:
    shares = {source: share for source, share in outcome.source_shares.items() if share > 0}
    sources = [f"{source} {100 * share:.1f} %" for source, share in shares.items()]
    if outcome.covered < 1:
        sources.append(f"(reads {100 * outcome.covered:.1f} % of the dataset)")
    return ", ".join(sources)


def _aligned(rows: Sequence[_Row]) -> list[str]:
    """Returns rows as lines: numbers are aligned right, names and sources left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    texts = (0, 1) if rows[0] == _SOURCES else (0,)
    return [
        "  ".join(
            cell.ljust(width) if number in texts else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
