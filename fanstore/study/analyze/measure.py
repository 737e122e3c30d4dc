"""Rates from what a phase recorded: where the warm-up ends, and how sure a rate is."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from fanstore.study.analyze.analysis import Rate

# Student's t for 95 %, by the number of blocks less one.
_T95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_BLOCKS = len(_T95) + 1
_BETTER = "more --steps, or a quieter machine"
UNSURE, WORTHLESS = 0.05, 0.25  # half of an interval, as a part of the rate


@dataclass(frozen=True)
class Span:
    """Some samples, and the seconds that they took."""

    samples: float
    seconds: float


def spans_of(steps: Sequence[Sequence[float]], ahead: int, workers: int) -> list[Span]:
    """Returns the steps of one loader within an epoch, as many together as there are workers, whose
    batches come at once. steps: when each batch was asked for and came (s), its samples, its epoch.
    Left out are the first batches of each epoch, as many as the loader prepares ahead, and one; of
    epochs that are no longer than that, the first batch alone."""
    together = max(1, workers)
    epochs: dict[int, list[Sequence[float]]] = {}
    for step in steps:
        epochs.setdefault(int(step[3]), []).append(step)
    most = max((len(each) for each in epochs.values()), default=0)
    skip = ahead + 1 if most > ahead + 1 + together else 1
    found = []
    for each in epochs.values():
        for end in range(skip - 1 + together, len(each), together):
            samples = sum(step[2] for step in each[end - together + 1 : end + 1])
            found.append(Span(samples, each[end][1] - each[end - together][1]))
    return found


def rate_of(spans: Sequence[Span]) -> Rate | None:
    """Returns samples by seconds, with the interval of 95 % of the means of ten blocks, whose
    steps follow one another; None where nothing was measured."""
    seconds = sum(each.seconds for each in spans)
    samples = sum(each.samples for each in spans)
    if seconds <= 0 or samples <= 0:
        return None
    rate = samples / seconds
    blocks = [_seconds_a_sample(block) for block in _blocks(spans)]
    if len(blocks) < 2:
        return _with_half(rate, 1.0)
    half = _T95[len(blocks) - 2] * stdev(blocks) / math.sqrt(len(blocks)) / mean(blocks)
    return _with_half(rate, half)


def together(rates: Sequence[Rate]) -> Rate | None:
    """Returns the sum of the rates of several loaders or ranks, taken as independent."""
    if not rates:
        return None
    total = sum(each.samples_per_s for each in rates)
    half = math.sqrt(sum((each.samples_per_s * half_of(each)) ** 2 for each in rates)) / total
    return _with_half(total, half)


def half_of(rate: Rate) -> float:
    """Returns half of the interval, as a part of the rate."""
    return 1 - rate.low / rate.samples_per_s


def doubt(name: str, rate: Rate) -> str | None:
    """Says what a rate is worth, where that is not much."""
    half = half_of(rate)
    if half <= UNSURE:
        return None
    worth = "WORTHLESS: " if half > WORTHLESS else ""
    return f"{worth}{name} is known to +-{100 * half:.0f} % only; {_BETTER}"


def _with_half(rate: float, half: float) -> Rate:
    half = min(half, 1.0)
    return Rate(rate, rate * (1 - half), rate * (1 + half))


def _blocks(spans: Sequence[Span]) -> Iterator[Sequence[Span]]:
    count = min(_BLOCKS, len(spans))
    bounds = [len(spans) * number // count for number in range(count + 1)]
    for begin, end in itertools.pairwise(bounds):
        yield spans[begin:end]


def _seconds_a_sample(block: Sequence[Span]) -> float:
    return sum(each.seconds for each in block) / max(1e-9, sum(each.samples for each in block))
