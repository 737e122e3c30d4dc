"""Draws a result of epochs.py --json as bars, one for each way, in an SVG for light and dark pages.
Prints the table of docs/why.md.

python tools/slow/epochs_figure.py docs/performance/epochs.json docs/performance/epochs.svg
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

LABELS = {
    "plain": "the shared file system, directly",
    "tar": "tar copies to the local disk first",
    "untar": "tar file, unpacked locally first",
    "squashfuse": "squashfs image, squashfuse",
    "webdataset": "tar shards, webdataset",
    "fanstore": "FanStore, same directory",
    "packed": "FanStore, packed dataset",
}
WIDTH, LEFT, RIGHT, ROW, TOP = 620, 248, 60, 32, 64
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328 } .small { font-size: 12px }
.ours { font-weight: 700 } .back { fill: #ffffff } .line { stroke: #d0d7de }
.part0 { fill: #8c959f } .part1 { fill: #0969da } .part2 { fill: #54aeff } .part3 { fill: #a5d3ff }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .back { fill: #161b22 } .line { stroke: #30363d }
  .part0 { fill: #6e7681 } .part1 { fill: #388bfd }
  .part2 { fill: #79c0ff } .part3 { fill: #cae8ff }
}
"""


def parts_of(row: dict[str, Any]) -> list[float]:
    """Returns the seconds of each part of a bar: all that is no epoch, then the epochs."""
    return [max(0.0, row["whole_s"] - sum(row["epochs_s"])), *row["epochs_s"]]


def caption(report: dict[str, Any]) -> list[str]:
    """Returns the lines that say what was measured."""
    cores, load = report["cores"], report["load"]
    files = f"{report['files']:,} files of {report['bytes'] >> 10} KiB"
    stream, total = rate(report["stream"]), rate(report["total"])
    text = f"""{files}, read by torch's DataLoader with 2 workers, on one node of {cores} cores
        (load average at the start: {load}). The shared file system is a simulated one: each call
        waits {report["latency"]}, an open file gives {stream}, and all files together {total}.
        Not counted: making the tar file, the image, the shards and the packed dataset, once
        before the job."""
    return textwrap.wrap(" ".join(text.split()), 90)


def rate(text: str) -> str:
    return f"{text.removesuffix('M')} MB/s"


def bars(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yields label, bar and seconds of each way."""
    scale = (WIDTH - LEFT - RIGHT) / max(sum(parts_of(row)) for row in rows)
    for number, row in enumerate(rows):
        y, x = TOP + number * ROW, float(LEFT)
        ours = ' class="ours"' if row["way"] in ("fanstore", "packed") else ""
        label = f'x="{LEFT - 12}" y="{y + 17}" text-anchor="end"'
        yield f"<text{ours} {label}>{LABELS[row['way']]}</text>"
        for part, seconds in enumerate(parts_of(row)):
            wide = seconds * scale
            place = f'x="{x:.1f}" y="{y}" width="{wide:.1f}" height="24"'
            yield f'<rect class="part{min(part, 3)}" {place}/>'
            x += wide
        yield f'<text{ours} x="{x + 8:.1f}" y="{y + 17}">{row["whole_s"]:.0f} s</text>'


def legend(epochs: int) -> Iterator[str]:
    """Yields the meaning of the colours."""
    x = 16
    for part in range(epochs + 1):
        text = f"epoch {part}" if part else "start, copying, end"
        yield f'<rect class="part{min(part, 3)}" x="{x}" y="34" width="12" height="12"/>'
        yield f'<text class="small" x="{x + 18}" y="45">{text}</text>'
        x += 78 if part else 148


def drawing(report: dict[str, Any]) -> str:
    """Returns the SVG."""
    rows = report["rows"]
    bottom = TOP + len(rows) * ROW
    said = ", ".join(f"{LABELS[row['way']]}: {row['whole_s']:.0f} s" for row in rows)
    lines = caption(report)
    notes = [
        f'<text class="small" x="16" y="{bottom + 26 + 18 * n}">{escape(line)}</text>'
        for n, line in enumerate(lines)
    ]
    title = f"Seconds of a whole training job of {len(rows[0]['epochs_s'])} epochs"
    height = bottom + 26 + 18 * len(lines)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    return "\n".join([
        head, f"<title>{title}</title>", f"<desc>{escape(f'{said}. {chr(32).join(lines)}')}</desc>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="ours" x="16" y="24">{title}</text>', *legend(len(rows[0]["epochs_s"])),
        *bars(rows),
        f'<line class="line" x1="16" x2="{WIDTH - 16}" y1="{bottom + 4}" y2="{bottom + 4}"/>',
        *notes, "</svg>", "",
    ])  # fmt: skip


def table(report: dict[str, Any]) -> str:
    """Returns the numbers as a table in Markdown."""
    epochs = [f"epoch {number + 1}" for number in range(len(report["rows"][0]["epochs_s"]))]
    lines = [["way", "start, copying, end", *epochs, "whole job"]]
    lines.append(["---"] * len(lines[0]))
    for row in report["rows"]:
        seconds = [f"{each:.1f}" for each in (*parts_of(row), row["whole_s"])]
        lines.append([LABELS[row["way"]], *seconds])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    report = json.loads(Path(sys.argv[1]).read_text())
    Path(sys.argv[2]).write_text(drawing(report))
    print(table(report), end="")


if __name__ == "__main__":
    main()
