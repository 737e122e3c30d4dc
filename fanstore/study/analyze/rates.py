"""Computes rates from the records of a phase: the speed, the end of the warm-up, and how certain a
rate is."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from fanstore.study.analyze.access import Access
from fanstore.study.analyze.analysis import Rate

# Student's t for 95 %, by the number of blocks minus one.
_T95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_BLOCKS = len(_T95) + 1
_BETTER = "use more --steps, or a quieter machine"
# Half of an interval, as a part of the rate: then it is doubtful, or worthless.
UNSURE, WORTHLESS = 0.05, 0.25


@dataclass(frozen=True)
class Span:
    """Some samples, and the seconds that they took."""

    samples: float
    seconds: float


def spans_of(steps: Sequence[Sequence[float]], ahead: int, workers: int) -> list[Span]:
    """Returns the spans between steps of one loader within an epoch; a span has as many steps as
    there are workers, because their batches come at the same time. steps: when each batch was asked
    for and came (s), its samples, its epoch. Leaves out the first batches of each epoch, one more
    than the loader prepares ahead; if epochs are not longer than that, only the first batch."""
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
    """Returns samples divided by seconds, with the 95 % interval from the means of ten blocks of
    successive steps; None if nothing was measured."""
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
    """Returns the sum of the rates of several loaders or ranks, which are assumed to be
    independent."""
    if not rates:
        return None
    total = sum(each.samples_per_s for each in rates)
    half = math.sqrt(sum((each.samples_per_s * half_of(each)) ** 2 for each in rates)) / total
    return _with_half(total, half)


def half_of(rate: Rate) -> float:
    """Returns half of the interval as a part of the rate."""
    return 1 - rate.low / rate.samples_per_s


def doubt(name: str, rate: Rate) -> str | None:
    """Returns a sentence about a rate that is not certain, else None."""
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


_WARM_UP = 0.1  # the first part of the time, which is left out except for loaders' steps
_OPENS = 64  # opens in a span, because in a trace this many share one time


@dataclass(frozen=True)
class Loader:
    """The loader from which training reads: its number in its process, the samples of an epoch on
    all ranks (0: unknown), its workers on all ranks, and how many samples the job got from it."""

    number: int
    samples: int
    workers: int
    got: float


def training_loader(records: Sequence[dict[str, Any]]) -> Loader | None:
    """Returns the loader from which the job got most samples; None if there were none."""
    got: dict[int, float] = {}
    for record in records:
        for each in record["loaders"]:
            drawn = sum(step[2] for step in each["steps"])
            got[each["number"]] = got.get(each["number"], 0) + drawn
    if not got or not max(got.values()):
        return None
    number = max(got, key=lambda each: got[each])
    own = [each for record in records for each in record["loaders"] if each["number"] == number]
    workers = sum(each["workers"] for each in own)
    return Loader(number, sum(each["samples"] for each in own), workers, got[number])


def ahead_samples(records: Sequence[dict[str, Any]], number: int) -> float:
    """Estimates how many samples the loaders had read by the end that the job had not got yet."""
    own = [each for record in records for each in record["loaders"] if each["number"] == number]
    return float(sum(each["ahead"] * each["batch"] for each in own)) / 2


def rate_of_loader(records: Sequence[dict[str, Any]], number: int) -> Rate | None:
    """Returns the samples per second of one loader, over all processes that have it."""
    rates = [
        rate_of(spans_of(each["steps"], each["ahead"], each["workers"]))
        for record in records
        for each in record["loaders"]
        if each["number"] == number
    ]
    return together([rate for rate in rates if rate is not None])


def processor_s_of(records: Sequence[dict[str, Any]], number: int) -> float | None:
    """Returns how many seconds of a core one sample of a loader takes, over all processes that have
    it and their workers; None if that was not measured."""
    told = [
        each["processor"] for record in records for each in record["loaders"]
        if each["number"] == number
    ]  # fmt: skip
    samples = sum(each[1] for each in told)
    return sum(each[0] for each in told) / samples if samples else None


def rate_of_opens(access: Access) -> Rate | None:
    """Returns how many files per second a job opened, without the first tenth of the time."""
    times_s = access.times_s
    if len(times_s) < 2 * _OPENS:
        return None
    times_s = times_s[times_s >= _WARM_UP * times_s[-1]][::_OPENS]
    pairs = zip(times_s.tolist(), times_s[1:].tolist(), strict=False)
    return rate_of([Span(_OPENS, after - before) for before, after in pairs])


def rate_of_replay(directory: Path) -> Rate | None:
    """Returns the bytes per second of all readers of a replay, from a tenth of the time until the
    first reader was done."""
    rates = []
    for rank in {path.stem.partition("-")[2] for path in directory.glob("cached-*.json")}:
        told = [json.loads(path.read_text()) for path in directory.glob(f"[0-9]*-{rank}.json")]
        told = [each for each in told if len(each) > 1]
        if told:
            rates.append(rate_of(_spans(told)))
    return together([rate for rate in rates if rate is not None])


def cached_after_drop(directory: Path) -> float | None:
    """Returns which part of the packs stayed in memory although it was dropped; None if unknown."""
    found = [json.loads(path.read_text()) for path in directory.glob("cached-*.json")]
    return None if None in found else max(found, default=0.0)


def _spans(told: Sequence[Sequence[Sequence[float]]]) -> list[Span]:
    end_s = min(reader[-1][0] for reader in told)
    begin_s = _WARM_UP * end_s
    reads = sorted(
        (after[0], after[1] - before[1])
        for reader in told
        for before, after in itertools.pairwise(reader)
        if begin_s <= after[0] <= end_s
    )
    pairs = itertools.pairwise(reads)
    return [Span(after[1], after[0] - before[0]) for before, after in pairs]
