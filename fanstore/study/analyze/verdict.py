"""Words the results of an analysis: what was not seen, what to do, then the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fanstore.study.analyze.analysis import NAMES, Analysis
from fanstore.study.analyze.prediction import PREDICTED_FROM, Hardware, Prediction, predict
from fanstore.study.analyze.rates import WORTHLESS, half_of
from fanstore.wording import counted, show_bytes

LIMITS = {
    "ingest": "training", "prepare": "preparation", "fetch": "reading",
    "cores": "the cores that training and preparation share",
}  # fmt: skip
_MORE = 10  # times as much of one resource, to see whether it gains anything
_NOTHING = 1.02  # a gain that is too small to name, as measured rates are no more exact
Cases = Sequence[tuple[dict[str, str], Prediction]]


def cold(analysis: Analysis) -> Prediction | None:
    """Returns the prediction for a job that keeps nothing near; None if a rate is missing."""
    if not all(name in analysis.rates for name in PREDICTED_FROM):
        return None
    return predict(analysis, Hardware())


def lines(analysis: Analysis) -> Iterator[str]:
    """Yields the lines that tell users the result."""
    unseen = _unseen(analysis)
    if not analysis.whole:
        yield "PARTIAL: the analysis was broken off; what follows was measured before that."
    if unseen:
        yield f"No verdict: {' and '.join(unseen)}."
        return
    nothing, all_of_it = Hardware(), Hardware(local_bytes=round(_dataset_bytes(analysis)))
    as_it_ran, otherwise = (all_of_it, nothing) if analysis.near else (nothing, all_of_it)
    yield _judged(analysis, as_it_ran, "As it ran, with")
    yield _judged(analysis, otherwise, "With")
    yield from _figures(analysis, predict(analysis, nothing))


def _judged(analysis: Analysis, setting: Hardware, begin: str) -> str:
    """Returns the speed of the job under a setting, and what to do then."""
    begin += " all files on the nodes: " if setting.local_bytes else " no files on the nodes: "
    if unsure := _unsure(analysis, setting):
        return f"{begin}no verdict, because {' and '.join(unsure)}."
    speed = predict(analysis, setting).samples_per_s
    return f"{begin}{speed:,.1f} samples/s. {_what_to_do(analysis, setting)}"


def _unseen(analysis: Analysis) -> list[str]:
    """Returns what is missing for a verdict."""
    needed = [*PREDICTED_FROM, *(["ingest"] if analysis.workers is not None else [])]
    return [f"{NAMES[name]} was not measured" for name in needed if name not in analysis.rates]


def _unsure(analysis: Analysis, setting: Hardware) -> list[str]:
    """Returns the rates that are so rough that another limit is as likely."""
    limits, found = predict(analysis, setting).limits, []
    for name in ("ingest", *PREDICTED_FROM):
        rate = analysis.rates.get(name)
        if rate is None or half_of(rate) <= WORTHLESS:
            continue
        ends = (max(rate.low, rate.samples_per_s / 100), rate.high)
        others = (predict(analysis.with_rate(name, end), setting).limits for end in ends)
        if any(each != limits for each in others):
            found.append(f"{NAMES[name]} is known to +-{100 * half_of(rate):.0f} % only")
    return found


def _what_to_do(analysis: Analysis, setting: Hardware) -> str:
    found = predict(analysis, setting)
    idle = _useless(analysis, setting, _NOTHING * found.samples_per_s)
    first = "" if found.limits == ("ingest",) else "before that, "
    useless = f"{first}{idle} would gain nothing."
    useless = f" {useless[0].upper()}{useless[1:]}" if idle else ""
    if analysis.workers == 0 and found.limits != ("fetch",):
        said = "Training and preparation take turns: give the loader workers (num_workers)."
    elif len(found.limits) > 1 and "cores" not in found.limits:
        names = " and ".join(LIMITS[name] for name in found.limits)
        said = f"{names.capitalize()} are equally slow: only more of each makes the job faster."
        useless = ""
    else:
        said, then = _remedy(analysis, setting, found, found.limits[-1], "workers" not in idle)
        if then is not None:
            speed = predict(analysis, then).samples_per_s
            said = f"{said.removesuffix('.')}, for {speed:,.1f} samples/s."
    return _training_unseen(analysis) + said + useless


def _training_unseen(analysis: Analysis) -> str:
    if "ingest" in analysis.rates:
        return ""
    return "How fast the job trains was not seen; no speed is above preparation's. "


def _remedy(
    analysis: Analysis, setting: Hardware, found: Prediction, limit: str, workers_help: bool
) -> tuple[str, Hardware | None]:
    """Returns a sentence about a limit and about the way to end it; and the setting after that, if
    it is known."""
    if limit == "ingest":
        return "Training is the limit: only a faster GPU or more nodes make the job faster.", None
    if limit == "fetch":
        kept_bytes = found.min_kept * _dataset_bytes(analysis)
        return (
            f"Training waits for reading: keep {100 * found.min_kept:.0f} % of the dataset "
            f"({show_bytes(kept_bytes)}) on the nodes' disks."
        ), replace(setting, local_bytes=round(kept_bytes))
    before, after = analysis.workers, found.min_workers
    if limit == "prepare" and before is not None and after is not None and after > before:
        return (
            "Training waits for preparation (decoding and the like): "
            f"use {after} loader workers on each node instead of {before}."
        ), replace(setting, workers=after)
    cores = counted(analysis.cores, "core")
    if limit == "prepare" and before is not None and workers_help:
        return (
            "Training waits for preparation (decoding and the like): "
            f"add loader workers until the {cores} of each node are busy."
        ), None
    waits = "waits for preparation on" if limit == "prepare" else "and preparation share"
    enough = found.min_cores
    wanted = f"; {enough} would be enough" if enough and enough > analysis.cores else ""
    return f"Training {waits} {cores} of each node{wanted}.", None


def _useless(analysis: Analysis, setting: Hardware, most: float) -> str:
    """Returns the resources of which more would not bring a higher speed than `most`."""
    storage = _MORE * analysis.of("storage") * analysis.sample_bytes
    more = {
        "faster storage": replace(setting, storage_bytes_per_s=storage),
        "more cores": replace(setting, cores=_MORE * analysis.cores, workers=analysis.workers),
    }
    if analysis.workers is not None:
        more["more loader workers"] = replace(setting, workers=_MORE * max(1, analysis.workers))
    if "ingest" in analysis.rates:
        more["a faster GPU"] = replace(setting, training=_MORE)
    names = [name for name, each in more.items() if predict(analysis, each).samples_per_s < most]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _dataset_bytes(analysis: Analysis) -> float:
    return analysis.samples * analysis.sample_bytes


def _figures(analysis: Analysis, cold: Prediction) -> Iterator[str]:
    waits = [
        f"{100 * stall:.1f} % of the time for {what}"
        for stall, what in ((cold.fetch_stall, "reading"), (cold.prepare_stall, "preparation"))
        if stall > 0.001
    ]
    if waits:
        yield f"with no files on the nodes, training waits {' and '.join(waits)}"
    if cold.fetch_stall > 0.001 and cold.min_storage_bytes_per_s:
        now = show_bytes(analysis.of("storage") * analysis.sample_bytes)
        yield (
            "storage that would be fast enough without files on the nodes: "
            f"{show_bytes(cold.min_storage_bytes_per_s)}/s (now {now}/s)"
        )


def compared(analysis: Analysis, told: Cases) -> str:
    """Returns a line about several predictions: which of them is enough."""
    speeds = [found.samples_per_s for _, found in told]
    most, least = max(speeds), min(speeds)
    asked, found = next(each for each in told if each[1].samples_per_s * _NOTHING >= most)
    case = _case(asked)
    limit = f"then the limit is {' and '.join(LIMITS[name] for name in found.limits)}"
    slowest = _case(next(asked for asked, each in told if each.samples_per_s == least))
    if len(told) == 1:
        said = f"With {case} the job reaches {most:,.1f} samples/s; {limit}."
    elif most < least * _NOTHING:
        said = f"None of these makes a difference: the job reaches {most:,.1f} samples/s; {limit}."
    else:
        said = (
            f"The first of these that is enough: {case}. The job reaches "
            f"{found.samples_per_s:,.1f} samples/s ({least:,.1f} with {slowest}); {limit}."
        )
    return _training_unseen(analysis) + said


def _case(asked: Mapping[str, str]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in asked.items())
