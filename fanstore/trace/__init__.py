"""The access trace of a job: what its programs opened, what they read, and what they waited for;
while the job runs, and from a file that was kept (docs/trace.md)."""

from __future__ import annotations

from fanstore.trace.kept import read_trace
from fanstore.trace.lanes import live_counters, live_trace
from fanstore.trace.tables import SOURCES, Trace

__all__ = ["SOURCES", "Trace", "live_counters", "live_trace", "read_trace"]
