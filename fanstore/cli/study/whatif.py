"""fanstore study whatif: predicts how fast an analysed job would be on other hardware."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
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
              help="Block cache of each node: 64G, or 35% of the dataset [default: "
              "0%,25%,50%,75%,100%; with --local 0%].")  # fmt: skip
@click.option("--local", metavar="SIZE,...",
              help="Files on the disk of each node: 500G, or 35% of the dataset "
              "[default: 0%].")  # fmt: skip
@click.option("--workers", metavar="N,...",
              help="Loader workers of each node [default: as many for each core "
              "as measured].")  # fmt: skip
@click.option("--cores", metavar="N,...", help="Cores of each node [default: as measured].")
@click.option("--gpu", metavar="TIMES,...", help="GPUs that are so many times as fast.")
@click.option("--storage", metavar="RATE,...",
              help="Bandwidth of the storage, such as 2GB/s [default: as measured].")  # fmt: skip
@click.option("--nodes", metavar="N,...", help="Nodes of the job [default: as measured].")
@click.option("--codec", metavar="NAME,...",
              help="Compression of the dataset: none or zstd [default: as measured].")  # fmt: skip
@click.option("--jobs", metavar="N,...", help="Such jobs on each node at a time [default: 1].")
@click.option("--coordinated", metavar="off,on",
              help="Whether they share each prepared sample [default: off].")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(report: Path, as_json: bool, **texts: str | None) -> None:
    """Say how fast the job of REPORT would be, and what would limit it. Nothing runs.

    REPORT is the directory that `fanstore study analyze --out REPORT` made, or the JSON in it.
    Several values of an option, with commas between them, are a sweep; of several options, all
    combinations.

    \b
    Examples:
      fanstore study whatif fanstore-analysis
      fanstore study whatif job.json --cache 64G --cores 12 --storage 2GB/s
      fanstore study whatif job.json --local 25%,50% --nodes 1,2,8
    """
    from fanstore.study.analyze.analysis import read
    from fanstore.study.analyze.prediction import Hardware, predict

    analysis = read(report)
    if texts["cache"] is None and texts["local"] is None:
        texts["cache"] = "0%,25%,50%,75%,100%"
    size = partial(_size, analysis)
    # By option, the field of Hardware and how its text is read.
    fields: dict[str, tuple[str, Callable[[str], Any]]] = {
        "cache": ("cache_bytes", size), "local": ("local_bytes", size),
        "workers": ("workers", _count), "cores": ("cores", _count), "gpu": ("training", _times),
        "storage": ("storage_bytes_per_s", _rate), "nodes": ("nodes", _count),
        "codec": ("codec", _one_of("none", "zstd")), "jobs": ("jobs", _count),
        "coordinated": ("coordinated", _one_of("off", "on")),
    }  # fmt: skip
    asked = {name: _values(name, text, fields[name][1]) for name, text in texts.items() if text}
    told: list[tuple[dict[str, str], Prediction]] = []
    for case in product(*asked.values()):
        values = {fields[name][0]: value for name, (_, value) in zip(asked, case, strict=True)}
        written = {name: text for name, (text, _) in zip(asked, case, strict=True)}
        told.append((written, predict(analysis, Hardware(**values))))
    if as_json:
        click.echo(json.dumps([{"asked": a, **asdict(p)} for a, p in told], indent=2))
        return
    _show(analysis, told)


def _values(name: str, text: str, parse: Callable[[str], Any]) -> list[tuple[str, Any]]:
    """Returns each value of an option as written and as parsed."""
    from fanstore.errors import UsageError

    values = []
    for part in text.split(","):
        try:
            values.append((part, parse(part)))
        except ValueError as error:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} {part!r}: allowed: {error}") from None
    return values


def _size(analysis: Analysis, text: str) -> int:
    from fanstore.study.fields import SIZES, size_bytes

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
    from fanstore.study.fields import RATES, rate_bytes_per_s

    try:
        return rate_bytes_per_s(text)
    except ValueError:
        raise ValueError(RATES) from None


def _count(text: str) -> int:
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise ValueError("an integer, 1 or more")


def _times(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise ValueError("a number above 0")


def _one_of(*names: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text in names:
            return text
        raise ValueError(" or ".join(names))

    return parse


def _show(analysis: Analysis, told: list[tuple[dict[str, str], Prediction]]) -> None:
    from fanstore.study.analyze.verdict import LIMITS, compared

    click.echo(compared(analysis, told))
    heads = [name.replace("_", " ") for name in told[0][0]]
    rows = [[*heads, "samples/s", "waits for preparation", "for reading", "limit"]]
    for asked, found in told:
        rows.append([
            *asked.values(), f"{found.samples_per_s:,.1f}",
            f"{100 * found.prepare_stall:.1f} %", f"{100 * found.fetch_stall:.1f} %",
            " and ".join(LIMITS[name] for name in found.limits),
        ])  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]))
    for note in analysis.notes:
        click.echo(f"note: {note}")
