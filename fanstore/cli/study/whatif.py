"""fanstore study whatif: predicts how fast an analysed job would be on other hardware."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from fanstore.study.analyze.analysis import Analysis
    from fanstore.study.analyze.prediction import Prediction


@click.command()
@click.argument("report", type=click.Path(path_type=Path))
@click.option("--cache", metavar="SIZE,...",
              help="Memory of each node for the dataset: 64G, or 35% of the dataset "
              "[default: 0%,25%,50%,75%,100%].")  # fmt: skip
@click.option("--cores", metavar="N,...", help="Cores of each node [default: as measured].")
@click.option("--disk", metavar="RATE,...",
              help="Bandwidth of the storage, such as 2GB/s [default: as measured].")  # fmt: skip
@click.option("--nodes", metavar="N,...", help="Nodes with a cache each [default: as measured].")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    report: Path, cache: str | None, cores: str | None, disk: str | None, nodes: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Say how fast the job of REPORT would be, and what would limit it. Nothing runs.

    REPORT is the directory that `fanstore study analyze --out REPORT` made, or the JSON in it.
    Several values of an option, with commas between them, are a sweep; of several options, all
    combinations.

    \b
    Examples:
      fanstore study whatif fanstore-analysis
      fanstore study whatif job.json --cache 64G --cores 12 --disk 2GB/s
      fanstore study whatif job.json --cache 25%,50% --nodes 1,2,8
    """
    from fanstore.study.analyze.analysis import read
    from fanstore.study.analyze.prediction import Hardware, predict

    analysis = read(report)
    told: list[tuple[dict[str, str], Prediction]] = []
    options = [
        _values("--cache", cache or "0%,25%,50%,75%,100%", lambda text: _cache(text, analysis)),
        _values("--cores", cores, _count),
        _values("--disk", disk, _rate),
        _values("--nodes", nodes, _count),
    ]
    names = ("cache", "cores", "disk", "nodes")
    for case in product(*options):
        values = dict(zip(names, case, strict=True))
        asked = {name: text for name, (text, _) in values.items() if text}
        cache_bytes, n_cores, bytes_per_s, n_nodes = (value for _, value in case)
        setting = Hardware(cache_bytes, n_cores, bytes_per_s, n_nodes)
        told.append((asked, predict(analysis, setting)))
    if as_json:
        click.echo(json.dumps([{"asked": a, **asdict(p)} for a, p in told], indent=2))
        return
    _show(analysis, told)


def _values(option: str, text: str | None, parse: Callable[[str], Any]) -> list[tuple[str, Any]]:
    """Returns each value of an option as written and as parsed; ("", None) if it is not given."""
    from fanstore.errors import UsageError

    if text is None:
        return [("", None)]
    values = []
    for part in text.split(","):
        try:
            values.append((part, parse(part)))
        except ValueError as error:
            raise UsageError(f"{option} {part!r}: allowed: {error}") from None
    return values


def _cache(text: str, analysis: Analysis) -> int:
    from fanstore.plan.fields import SIZES, size_bytes

    try:
        if not text.endswith("%"):
            return size_bytes(text)
        part = float(text[:-1]) / 100
        if 0 <= part <= 1:
            return round(part * analysis.samples * analysis.sample_bytes)
    except ValueError:
        pass
    raise ValueError(f"{SIZES}, or 0% to 100% of the dataset")


def _rate(text: str) -> float:
    from fanstore.plan.fields import RATES, rate_bytes_per_s

    try:
        return rate_bytes_per_s(text)
    except ValueError:
        raise ValueError(RATES) from None


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise ValueError("an integer, 1 or more")


def _show(analysis: Analysis, told: list[tuple[dict[str, str], Prediction]]) -> None:
    from fanstore.study.analyze.prediction import LIMITS, doubts

    names = [name for name in ("cache", "cores", "disk", "nodes") if name in told[0][0]]
    heads = [*names, "samples/s", "prep. stall", "fetch stall", "limit"]
    rows = [heads]
    for asked, found in told:
        rows.append([
            *(asked[name] for name in names), f"{found.samples_per_s:,.1f}",
            f"{100 * found.prepare_stall:.1f} %", f"{100 * found.fetch_stall:.1f} %",
            " and ".join(LIMITS[name] for name in found.limits),
        ])  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads) - 1)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]))
    smallest = told[-1][1]
    click.echo(f"smallest cache without fetch stall: {100 * smallest.min_cache:.1f} % (last row)")
    for note in doubts(analysis):
        click.echo(f"note: {note}")
