"""The access trace of a job: the opens, reads and waits of its programs. Reads it from a running
job and from a kept file (docs/trace.md)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fanstore.trace.kept import read_trace
    from fanstore.trace.lanes import live_counters, live_trace
    from fanstore.trace.sections import SOURCES
    from fanstore.trace.tables import Trace

__all__ = ["SOURCES", "Trace", "live_counters", "live_trace", "read_trace"]

_MODULES = {
    "SOURCES": "sections", "Trace": "tables", "live_counters": "lanes", "live_trace": "lanes",
    "read_trace": "kept",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Imports a public name when a program first uses it, because node daemons use this package
    without NumPy."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
