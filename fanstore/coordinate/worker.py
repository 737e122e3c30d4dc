"""The worker process of a member, which prepares batches; and the arrays of a batch in a slot of
the staging area. Each array begins at a multiple of 64 bytes."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fanstore.coordinate.messages import (
    COORDINATE_SOCKET,
    ArrayLayout,
    AskWork,
    Attach,
    CoordinationError,
    CoordinationRequest,
    Failed,
    Filled,
    Granted,
    Heard,
)
from fanstore.messages.channel import Channel, open_stream
from fanstore.messages.message import Message, MessageError, decode, from_line

_ALIGN = 64
Array = np.ndarray[Any, Any]


def store(area: mmap.mmap, at: int, room: int, arrays: Sequence[Any]) -> list[ArrayLayout]:
    """Copies arrays (or bytes) to offset `at` of a staging area, into at most `room` bytes; returns
    their layout. Raises CoordinationError if they do not fit or hold Python objects."""
    made = [np.frombuffer(a, np.uint8) if isinstance(a, bytes) else np.asarray(a) for a in arrays]
    layout: list[ArrayLayout] = []
    end = 0
    for array in made:
        if array.dtype.hasobject or array.dtype.names:
            raise CoordinationError(f"a batch has an array of {array.dtype}; allowed are numbers")
        layout.append(ArrayLayout(kind=array.dtype.str, shape=list(array.shape), offset=end))
        end += -(-array.nbytes // _ALIGN) * _ALIGN
    if end > room:
        raise CoordinationError(f"a batch has {end:,} bytes, its slot {room:,}: raise batch_bytes")
    for array, place in zip(made, layout, strict=True):
        np.ndarray(array.shape, array.dtype, area, at + place.offset)[...] = array
    return layout


def fetch(area: mmap.mmap, at: int, layout: Sequence[ArrayLayout]) -> list[Array]:
    """Returns copies of the arrays that lie in the staging area from offset `at` on, by their
    layout."""
    return [
        np.ndarray(tuple(each.shape), np.dtype(each.kind), area, at + each.offset).copy()
        for each in layout
    ]


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
