"""The options of a job. A module of its own, so that the wrapper need not load the job's
modules."""

from __future__ import annotations

from dataclasses import dataclass

from fanstore.config import Settings
from fanstore.launcher import ALONE, Launcher
from fanstore.staging.budget import Budget
from fanstore.staging.local_dir import LocalDirectory


@dataclass(frozen=True)
class JobPlan:
    """The options of one job. datasets: (directory, mount prefix or None), in order.

    kind: "run" for a job with a wrapper, "start" for one without. launcher: this rank and the
    number of ranks. output_dir: absolute. umask: the wrapper's, for files in the output directory.
    budget: how much memory this rank may use. trace_file: where to keep the access trace, absolute,
    or "". report_page: the page of the report to make from the trace at the end, or "". order_file:
    the file with the order in which the command reads, absolute, or ""."""

    datasets: tuple[tuple[str, str | None], ...]
    settings: Settings
    local: LocalDirectory
    kind: str
    budget: Budget
    launcher: Launcher = ALONE
    output_dir: str = ""
    umask: int = 0o077
    trace_file: str = ""
    report_page: str = ""
    order_file: str = ""
