"""Rates out of what phases left."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fanstore.study.analyze.access import Access
from fanstore.study.analyze.analysis import Rate
from fanstore.study.analyze.measure import Span, rate_of, spans_of, together

_WARM_UP = 0.1  # of what is not loaders' steps: the first part of the time that is left out
_OPENS = 64  # make a span: so many have one time in a trace


@dataclass(frozen=True)
class Loader:
    """The loader that training reads from: its number in its process, the samples of an epoch on
    all ranks (0: unknown), its workers on a rank, and how many samples the job got of it."""

    number: int
    samples: int
    workers: int
    got: float


def training_loader(records: Sequence[dict[str, Any]]) -> Loader | None:
    """Returns the loader that gave most samples; None where no loader was seen."""
    got: dict[int, float] = {}
    for record in records:
        for each in record["loaders"]:
            drawn = sum(step[2] for step in each["steps"])
            got[each["number"]] = got.get(each["number"], 0) + drawn
    if not got or not max(got.values()):
        return None
    number = max(got, key=lambda each: got[each])
    own = [each for record in records for each in record["loaders"] if each["number"] == number]
    workers = max(each["workers"] for each in own)
    return Loader(number, sum(each["samples"] for each in own), workers, got[number])


def ahead_samples(records: Sequence[dict[str, Any]], number: int) -> float:
    """Returns how many samples the loaders may have read that the job had not got at the end."""
    own = [each for record in records for each in record["loaders"] if each["number"] == number]
    return float(sum(each["ahead"] * each["batch"] for each in own)) / 2


def rate_of_loader(records: Sequence[dict[str, Any]], number: int) -> Rate | None:
    """Returns the samples a second of one loader in all processes that have it."""
    rates = [
        rate_of(spans_of(each["steps"], each["ahead"], each["workers"]))
        for record in records
        for each in record["loaders"]
        if each["number"] == number
    ]
    return together([rate for rate in rates if rate is not None])


def processor_s_of(records: Sequence[dict[str, Any]], number: int) -> float | None:
    """Returns how many seconds a core works for a sample of one loader, in all processes that have
    it, their workers included; None where none was measured."""
    told = [
        each["processor"] for record in records for each in record["loaders"]
        if each["number"] == number
    ]  # fmt: skip
    samples = sum(each[1] for each in told)
    return sum(each[0] for each in told) / samples if samples else None


def rate_of_opens(access: Access) -> Rate | None:
    """Returns the files a second that a job opened, without the first tenth of the time."""
    times_s = access.times_s
    if len(times_s) < 2 * _OPENS:
        return None
    times_s = times_s[times_s >= _WARM_UP * times_s[-1]][::_OPENS]
    pairs = zip(times_s.tolist(), times_s[1:].tolist(), strict=False)
    return rate_of([Span(_OPENS, after - before) for before, after in pairs])


def rate_of_replay(directory: Path) -> Rate | None:
    """Returns the bytes a second of all readers of a replay: without the first tenth of the time,
    up to when the first reader was done."""
    rates = []
    for rank in {path.stem.partition("-")[2] for path in directory.glob("cached-*.json")}:
        told = [json.loads(path.read_text()) for path in directory.glob(f"[0-9]*-{rank}.json")]
        told = [each for each in told if len(each) > 1]
        if told:
            rates.append(rate_of(_spans(told)))
    return together([rate for rate in rates if rate is not None])


def cached_after_drop(directory: Path) -> float | None:
    """Returns which part of the packs stayed in memory though it was dropped; None: not known."""
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
