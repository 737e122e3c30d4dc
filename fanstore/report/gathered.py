"""All that a report says, in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fanstore.report.access import Pattern, patterns
from fanstore.report.catalogue import Entry
from fanstore.report.figures import Figures, work_out
from fanstore.report.files import Files, use_of_files
from fanstore.report.foreseen import Foreseen, foreseen
from fanstore.report.sampled import Sampled, sampled
from fanstore.trace import Trace


@dataclass(frozen=True)
class Gathered:
    """What was worked out of one trace."""

    figures: Figures
    files: Files
    sampled: Sampled
    patterns: list[Pattern]
    foreseen: Foreseen | None


def gather(trace: Trace, datasets: Sequence[Entry]) -> Gathered:
    """Works out all that a report says."""
    figures = work_out(trace, datasets)
    return Gathered(
        figures,
        use_of_files(trace, datasets, figures.start_ns),
        sampled(trace, figures),
        patterns(trace, datasets, figures),
        foreseen(trace, figures),
    )
