"""The process that prepares a member's batches."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from fanstore.coordinate.buffers import store
from fanstore.coordinate.wire import Wire, connect

Prepare = Callable[[int, int], Sequence[Any]]


def work(
    directory: str, name: str, member: int, area: mmap.mmap, slot_bytes: int, prepare: Prepare,
    reports: Any,
) -> None:  # fmt: skip
    """Prepares batches as they are granted, until the member leaves or ends. reports: a queue that
    takes the traceback of a preparation that raised."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the member's, which ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError):  # the daemon has ended: the member says so
        wire = connect(directory, 10.0)
        wire.socket.settimeout(None)
        _request(wire, {"op": "attach", "name": name, "member": member})
        while (grant := _request(wire, {"op": "work"})) is not None:
            try:
                arrays = prepare(grant["epoch"], grant["batch"])
                layout = store(area, grant["slot"] * slot_bytes, slot_bytes, arrays)
            except Exception:
                reports.send(f"batch {grant['batch']}: {traceback.format_exc()}")
                _request(wire, {"op": "failed"})
            else:
                _request(wire, {"op": "filled", "layout": layout})
    os._exit(0)  # nothing of the member's own is to be ended here


def _request(wire: Wire, message: dict[str, Any]) -> dict[str, Any] | None:
    wire.send(message)
    return wire.receive_whole()[0]
