"""Figures that were measured several times: their median, their spread, and what they are worth."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

WORTHLESS_SPREAD = 0.5  # from here on a figure says little
_SHORT_S = 0.005  # what took less is made of the time that starting takes


@dataclass(frozen=True)
class Repeats:
    """The same amount of bytes, moved several times. seconds: what each time took."""

    amount_bytes: int
    seconds: tuple[float, ...]

    @property
    def bytes_per_s(self) -> float:
        """The rate of the median."""
        return max(1.0, self.amount_bytes / max(1e-9, median(self.seconds)))

    @property
    def spread(self) -> float:
        """How far the slowest and the fastest are apart, as a part of the median. Of four repeats
        and more these two are left out: something else ran for a moment, and the median stands."""
        ordered = sorted(self.seconds)
        if len(ordered) >= 4:
            ordered = ordered[1:-1]
        return (ordered[-1] - ordered[0]) / max(1e-9, median(ordered))

    @property
    def doubt(self) -> str | None:
        """Why the figure is worth nothing, or None."""
        if median(self.seconds) < _SHORT_S:
            return f"less than {1000 * _SHORT_S:g} ms: give more --bytes"
        if self.spread > WORTHLESS_SPREAD:
            return "repeats differ: measure again when nothing else runs, or with more --bytes"
        return None


@dataclass(frozen=True)
class Measured:
    """Figures by a count, such as that of readers, and what has to be said of them."""

    points: dict[int, Repeats]
    notes: tuple[str, ...] = ()
