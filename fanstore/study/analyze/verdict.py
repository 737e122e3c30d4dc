"""What an analysis says to people."""

from __future__ import annotations

from collections.abc import Iterator

from fanstore.study.analyze.analysis import Analysis
from fanstore.study.analyze.prediction import LIMITS, Prediction, Setting, predict
from fanstore.wording import show_bytes

PREDICTED_FROM = ("prepare", "storage", "cache")


def cold(analysis: Analysis) -> Prediction | None:
    """Returns the prediction without any cache; None where a rate is missing."""
    if not all(name in analysis.rates for name in PREDICTED_FROM):
        return None
    return predict(analysis, Setting())


def lines(analysis: Analysis) -> Iterator[str]:
    """Yields the verdict, a line each."""
    found = cold(analysis)
    if not analysis.whole:
        yield "PARTIAL: the analysis was broken off; what follows is what was measured by then"
    if found is None:
        missing = [name for name in PREDICTED_FROM if name not in analysis.rates]
        yield f"no verdict: the rates of {', '.join(missing)} are missing"
        return
    limit = " and ".join(LIMITS[name] for name in found.limits)
    yield f"without a cache the job is {limit}: {found.samples_per_s:,.1f} samples/s"
    yield from _stalls(found)
    dataset_bytes = analysis.samples * analysis.sample_bytes
    part, size = 100 * found.min_cache, show_bytes(round(found.min_cache * dataset_bytes))
    yield f"smallest cache without fetch stall: {part:.1f} % of the dataset, {size}"
    if found.min_disk_bytes_per_s:
        yield f"storage without fetch stall: {show_bytes(round(found.min_disk_bytes_per_s))}/s"
    if found.min_cores is not None:
        yield f"cores of a node without preparation stall: {found.min_cores}"


def _stalls(found: Prediction) -> Iterator[str]:
    if found.prepare_stall or found.fetch_stall:
        yield (
            f"preparation stall {100 * found.prepare_stall:.1f} % of the time, "
            f"fetch stall {100 * found.fetch_stall:.1f} %"
        )


def doubts(analysis: Analysis) -> list[str]:
    """Returns what has to be said beside the figures."""
    found = list(analysis.notes)
    if "ingest" not in analysis.rates:
        found.append("how fast the job trains was left open: no speed is above preparation's")
    return found
