"""What a job is asked to be. Apart from the job, so that the wrapper need not load its tools."""

from __future__ import annotations

from dataclasses import dataclass

from fanstore.config import Settings
from fanstore.launcher import ALONE, Launcher
from fanstore.staging.budget import Budget
from fanstore.staging.local_dir import LocalDirectory


@dataclass(frozen=True)
class JobPlan:
    """What to serve and how. datasets: (directory, mount prefix or None), in order.

    kind: "run" for a job with a wrapper, "start" for one that stands by itself. launcher: this node
    among those that serve together. output_dir: absolute. umask: the wrapper's, for what is made in
    the output directory. budget: what may be taken of this rank's memory. trace_file: where the
    access trace is kept, absolute; "" for nowhere. report_page: that of the report to be made of it
    at the end, or "". order_file: what says in which order the command reads, absolute, or "".
    plan_file: what says which files each node keeps, absolute, or "".
    """

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
    plan_file: str = ""
