"""Makes the report of a job at its end, in a separate process, which a signal can end."""

from __future__ import annotations

import os
import subprocess
import sys

from fanstore.launch import report
from fanstore.messages.job import AskedReport, JobSummary
from fanstore.report.places import NO_PLOTS, can_draw


def tell_missing_plots(page: str) -> None:
    """Warns, before hours are spent, that a report will have no page."""
    if page and not can_draw():
        report.say(f"report: {NO_PLOTS}; there will be only JSON")


def start_report(summary: JobSummary) -> subprocess.Popen[bytes] | None:
    """Starts to make the report that the user asked for, on rank 0; None if there is none to
    make."""
    asked = summary.report
    if asked is None or summary.rank > 0:
        return None
    command = [sys.executable, "-m", "fanstore", "report", asked.trace, "--out", asked.page]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def tell_report(asked: AskedReport | None, code: int, quiet: bool) -> None:
    """Reports whether the report was made. code: the exit code of the process that made it."""
    if asked is None:
        return
    page, trace = asked.page, asked.trace
    if code == 0:
        if not quiet:
            report.say(f"report: {page}")
    elif code < 0 or not os.path.exists(trace):
        report.say(f"report: none was made of {trace}")
    else:
        report.say(f"report: not made; `fanstore report {trace}` tries again")
