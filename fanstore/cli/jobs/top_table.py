"""The table of `fanstore top`: a line for each rank, and for each program that does something."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fanstore.messages.job import AbsentRank
from fanstore.messages.watched import ProgramRates, RankRates, Rates

Row = RankRates | AbsentRank
Line = tuple[Row, ProgramRates | None]

_SLOW = 0.2  # ranks that wait for at least this share of the time are coloured
_PRINTED_WIDTH = 100
_AWAY_SHOWN = 3
_SOURCES = ("local", "cache", "rank", "shared")
_COLUMNS = ("opens/s", "MB/s", *_SOURCES, "hit%", "stall%", "mem%", "disk%", "out")
LEGEND = (
    ("opens/s, MB/s", "files opened, and megabytes read by programs, each second"),
    ("local, cache", "of these MB/s, from this node's disk, and from its memory"),
    ("rank, shared", "of these MB/s, from other nodes, and from the shared file system"),
    ("hit%", "how many blocks of other nodes were in memory when they were wanted"),
    ("stall%", "how much of their time programs waited for bytes"),
    ("mem%, disk%", "how full the block cache is, and the local disk"),
    ("out", "outputs that wait to be copied to the output directory"),
)


def print_table(job_id: str, rows: list[Row]) -> None:
    """Prints the rates, as wide as the terminal, or 100 columns if there is none."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PRINTED_WIDTH)
    console.print(heading(job_id, rows), table_of(lines_of(rows, programs=True)))


def heading(job_id: str, rows: list[Row]) -> Text:
    """Returns the first line: the job, and the ranks that do not answer."""
    up_s = max((row.up_s for row in rows if isinstance(row, RankRates)), default=0.0)
    ranks = f"{len(rows)} rank{'s' * (len(rows) != 1)}  up {_span(up_s)}" if rows else "..."
    away = [f"rank {row.rank} {row.state}" for row in rows if isinstance(row, AbsentRank)]
    parts = [f"job {job_id}", ranks, *away[:_AWAY_SHOWN]]
    if len(away) > _AWAY_SHOWN:
        parts.append(f"{len(away) - _AWAY_SHOWN} more")
    return Text("  ".join(parts), style="bold", no_wrap=True, overflow="ellipsis")


def lines_of(rows: list[Row], programs: bool) -> list[Line]:
    """Returns the content of each line: a rank, or one of its active programs, sorted such that
    those that wait most come first."""
    lines: list[Line] = []
    for row in rows:
        lines.append((row, None))
        of_row = row.programs if programs and isinstance(row, RankRates) else ()
        active = [each for each in of_row if each.active]
        active.sort(key=lambda each: -(each.stall_share or 0.0))
        lines += [(row, each) for each in active]
    return lines


def table_of(lines: list[Line]) -> Table:
    """Returns the table of `lines`; it fits 80 columns."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="reverse")
    table.add_column("rank, programs", no_wrap=True, overflow="ellipsis", min_width=14)
    for name in _COLUMNS:
        table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
    for row, program in lines:
        if isinstance(row, AbsentRank):
            silent = "" if row.silent_s is None else f" {row.silent_s:,.0f} s"
            cells = [f"{row.rank} {row.host}", f"{row.state}{silent}"]
            table.add_row(*cells, style="bold red")
        else:
            table.add_row(*_cells(row, program), style=_style(row, program))
    return table


def legend() -> Table:
    """Returns what the columns mean."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for names, meaning in LEGEND:
        table.add_row(names, meaning, style="dim")
    return table


def _style(row: RankRates, program: ProgramRates | None) -> str:
    if program is not None:
        return "dim"
    return "yellow" if (row.stall_share or 0.0) >= _SLOW else ""


def _cells(row: RankRates, program: ProgramRates | None) -> list[str]:
    if program is not None:
        return [f"  {program.pid} {program.name}", *_rate_cells(program)]
    full = _percent(row.cache_fill), _percent(row.disk_fill)
    return [f"{row.rank} {row.host}", *_rate_cells(row), *full, _count(row.outputs_waiting)]


def _rate_cells(rates: Rates) -> list[str]:
    return [
        _count(rates.opens_per_s), _mega(rates.read_bytes_per_s),
        *(_mega(rates.bytes_per_s[source]) for source in _SOURCES),
        _percent(rates.hit_rate), _percent(rates.stall_share),
    ]  # fmt: skip


def _count(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value < 1e5 else f"{value / 1e3:,.0f}k"


def _mega(bytes_per_s: float | None) -> str:
    """Returns the rate in megabytes (10^6 bytes) per second."""
    if bytes_per_s is None:
        return "-"
    mega = bytes_per_s / 1e6
    return f"{mega:.1f}" if 0 < mega < 100 else f"{mega:,.0f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}"


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
