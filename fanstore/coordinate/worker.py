"""The worker process of a member: prepares batches."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fanstore.coordinate.buffers import store
from fanstore.coordinate.messages import (
    COORDINATE_SOCKET,
    AskWork,
    Attach,
    CoordinationRequest,
    Failed,
    Filled,
    Granted,
    Heard,
)
from fanstore.messages.channel import Channel, open_stream
from fanstore.messages.message import Message, MessageError, decode, from_line

Prepare = Callable[[int, int], Sequence[Any]]
A = TypeVar("A", bound=Message)


def work(
    directory: str, name: str, member: int, area: mmap.mmap, slot_bytes: int, prepare: Prepare,
    reports: Any,
) -> None:  # fmt: skip
    """Prepares the batches that the daemon grants, until the member leaves or ends. If `prepare`
    raises, writes the traceback to the pipe `reports`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the member handles Ctrl-C and kills this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with contextlib.suppress(OSError, MessageError):  # the daemon has ended: the member reports it
        channel = Channel(open_stream(directory, COORDINATE_SOCKET, 10.0))
        channel.socket.settimeout(None)
        _request(channel, Attach(name=name, member=member), Heard)
        while (grant := _request(channel, AskWork(), Granted)) is not None:
            try:
                arrays = prepare(grant.epoch, grant.batch)
                layout = store(area, grant.slot * slot_bytes, slot_bytes, arrays)
            except Exception:
                reports.send(f"batch {grant.batch}: {traceback.format_exc()}")
                _request(channel, Failed(), Heard)
            else:
                _request(channel, Filled(layout=layout), Heard)
    os._exit(0)  # does not run the exit handlers, which are the member's


def _request(channel: Channel, request: CoordinationRequest, answer: type[A]) -> A | None:
    channel.send(request)
    line = channel.receive_line()
    return None if line is None else decode(answer, from_line(line))
