"""The measurements of an analysis, as a JSON file."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fanstore.errors import UsageError

FORMAT = "fanstore analysis 1"
JSON_NAME = "analysis.json"
_PROCESSES = {"ingest", "prepare"}  # the rates of which processor_s is known
NAMES = {
    "job": "the job as it is", "ingest": "training (G)", "prepare": "preparation (P)",
    "memory": "both, from memory (M)", "storage": "fetches from storage (S)",
    "cache": "fetches from memory (C)",
}  # fmt: skip


@dataclass(frozen=True)
class Rate:
    """A rate in samples per second. The true rate lies from `low` to `high` with a probability of
    95 %."""

    samples_per_s: float
    low: float
    high: float


@dataclass(frozen=True)
class Analysis:
    """Rates by name: `ingest` (G), of training; `prepare` (P), of the loader from memory; `memory`
    (M), of both together from memory; `storage` (S) and `cache` (C), of fetches; `job`, as it ran.
    A rate that was not measured is missing. samples: of the dataset. sample_bytes: their mean size.
    cores: of a node. notes: reasons to doubt an answer. whole: all phases were measured. workers:
    of the loader on a node; None if no loader was seen, 0 if it prepares in the training process,
    so that both take turns. near: the job as it ran waited for no storage and no other node.
    compression: as of fanstore.study.analyze.access. nodes: how many took part in the measurements.
    processor_s: seconds of a core that a sample takes in `ingest` and `prepare`, if known."""

    samples: int
    sample_bytes: float
    cores: int
    rates: dict[str, Rate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    whole: bool = True
    workers: int | None = None
    near: bool = False
    compression: dict[str, float] | None = None
    nodes: int = 1
    processor_s: dict[str, float] = field(default_factory=dict)

    def of(self, name: str) -> float:
        """Returns a rate in samples a second; infinity if it is missing."""
        return self.rates[name].samples_per_s if name in self.rates else math.inf

    def together(self, training: int = 1, preparing: int = 1) -> float:
        """Returns the samples per second that this many training jobs and preparing jobs reach
        together on the cores that they share; infinity if that is unknown, or if stages take
        turns."""
        if self.workers == 0 or self.processor_s.keys() != _PROCESSES:
            return math.inf
        took_s = training * self.processor_s["ingest"] + preparing * self.processor_s["prepare"]
        return self.cores * self.nodes / took_s if took_s > 0 else math.inf

    def with_rate(self, name: str, samples_per_s: float) -> Analysis:
        """Returns the analysis with another rate, taken as exact."""
        rate = Rate(samples_per_s, samples_per_s, samples_per_s)
        return replace(self, rates={**self.rates, name: rate})

    def as_dict(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}


def read(path: Path) -> Analysis:
    """Reads an analysis from a file, or from a directory of `fanstore study analyze`. Raises
    UsageError if it is none, OSError if it cannot be read."""
    path = path / JSON_NAME if path.is_dir() else path
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["format"] != FORMAT:
            raise ValueError(f"its format is {told['format']!r}; allowed: {FORMAT!r}")
        rates = {name: Rate(**rate) for name, rate in told["rates"].items()}
        analysis = Analysis(
            told["samples"], told["sample_bytes"], told["cores"], rates,
            tuple(told.get("notes", ())), told.get("whole", True), told.get("workers"),
            told.get("near", False), told.get("compression"), told.get("nodes", 1),
            told.get("processor_s", {}),
        )  # fmt: skip
        _check(analysis)
    except (ValueError, KeyError, TypeError, AttributeError, FileNotFoundError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        if isinstance(error, FileNotFoundError):
            reason = "there is no such file"
        raise UsageError(
            f"{path}: is no analysis ({reason}): name the directory that `fanstore study analyze` "
            "made, or the analysis.json in it"
        ) from None
    return analysis


def _check(analysis: Analysis) -> None:
    unknown = sorted(analysis.rates.keys() - set(NAMES))
    if unknown:
        raise ValueError(f"rates.{unknown[0]} is unknown; allowed: {', '.join(NAMES)}")
    unknown = sorted(analysis.processor_s.keys() - _PROCESSES)
    if unknown:
        raise ValueError(
            f"processor_s.{unknown[0]} is unknown; allowed: {', '.join(sorted(_PROCESSES))}"
        )
    numbers = {
        "samples": analysis.samples,
        "sample_bytes": analysis.sample_bytes,
        "cores": analysis.cores,
        "nodes": analysis.nodes,
        **{f"rates.{name}": rate.samples_per_s for name, rate in analysis.rates.items()},
        **{f"processor_s.{name}": took_s for name, took_s in analysis.processor_s.items()},
    }
    for name, number in numbers.items():
        if isinstance(number, bool) or not 0 < number < math.inf:
            raise ValueError(f"{name} is {number!r}; allowed: a number above 0")
