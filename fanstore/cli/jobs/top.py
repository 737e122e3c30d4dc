"""fanstore top: shows live what the ranks and programs of a job read and wait for."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import click

from fanstore.cli.jobs.job_options import chosen_job, job_options

if TYPE_CHECKING:
    from fanstore.job.jobs import FoundJob
    from fanstore.messages.job import AbsentRank
    from fanstore.messages.watched import RankRates, WatchedRank

_PATIENCE_S = 0.25
_FIRST_PATIENCE_S = 2.0  # the daemon loads NumPy when it is first watched
_SORTS = ("stall", "opens", "bytes", "rank")


@click.command()
@job_options
@click.option(
    "--interval",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two updates.",
)
@click.option(
    "--sort",
    type=click.Choice(_SORTS),
    default="stall",
    show_default=True,
    help="Sort ranks by this; stall: those that wait most come first.",
)
@click.option("--this-rank", is_flag=True, help="This node's rank alone.")
@click.option("--once", is_flag=True, help="Print the rates once and end.")
@click.option("--json", "as_json", is_flag=True, help="With --once: as JSON (docs/monitoring.md).")
def command(
    job: str | None, local_dir: str | None, interval: float, sort: str, this_rank: bool,
    once: bool, as_json: bool,
) -> int:  # fmt: skip
    """Watch a job of this node with all its ranks, slow ranks first.

    Keys: h shows what the columns mean; s, o, b, r sort by stalls, opens, bytes, rank; p shows or
    hides programs; q ends. If standard output is not a terminal, prints the rates once, as with
    --once.

    \b
    Example:
      fanstore top --sort bytes
    """
    from fanstore.errors import UsageError

    if as_json and not once:
        raise UsageError("--json goes with --once")
    look = Look(chosen_job(job, local_dir, any_rank=not this_rank), this_rank)
    if once or not _is_screen():
        return print_once(look, interval, sort, as_json)
    from fanstore.cli.jobs.top_screen import watch

    return watch(look, interval, sort)


def _is_screen() -> bool:
    """Returns whether there is a terminal that can rewrite its lines, unlike TERM=dumb."""
    from rich.console import Console

    both = sys.stdout.isatty() and sys.stdin.isatty()
    return both and not Console().is_dumb_terminal


class Look:
    """Measures the rates of a job; each call of `rates` covers the time since the one before."""

    def __init__(self, job: FoundJob, this_rank: bool) -> None:
        """Raises FanstoreError if the job is dead."""
        from fanstore.errors import FanstoreError

        if not job.alive:
            raise FanstoreError(f"job {job.job_id} is dead: its daemon was killed")
        self.job = job
        self._this_rank = this_rank
        self._before = self._ask(_FIRST_PATIENCE_S)

    def _ask(self, patience_s: float) -> list[WatchedRank | AbsentRank]:
        from fanstore.job.jobs import watch_ranks

        return watch_ranks(self.job, patience_s, own=self._this_rank)

    def rates(self) -> list[RankRates | AbsentRank]:
        """Returns a row for each rank. Raises FanstoreError if the daemon does not answer."""
        from fanstore.watch.rates import difference

        now = self._ask(_PATIENCE_S)
        rows = difference(self._before, now)
        self._before = now
        return rows


def print_once(look: Look, interval: float, sort: str, as_json: bool) -> int:
    """Measures for `interval` seconds and prints the rates once."""
    from fanstore.messages.message import encode
    from fanstore.watch.rates import in_order

    time.sleep(interval)
    rows = in_order(look.rates(), sort)
    if as_json:
        click.echo(
            json.dumps(
                {"job_id": look.job.job_id, "ranks": [encode(row) for row in rows]}, indent=2
            )
        )
    else:
        from fanstore.cli.jobs.top_table import print_table

        print_table(look.job.job_id, rows)
    return 0
