"""The daemon's side of `fanstore warmup`: reports where blocks are, and fetches them to this node.

Answers each request at once and keeps no state about it. The command asks again until everything is
here; if the command is killed, nothing has to be undone."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fanstore.job.job import NodeJob
from fanstore.job.served import ServedDataset
from fanstore.messages.message import Message
from fanstore.messages.requests import (
    NUMBERS_MAX,
    AskKeeping,
    BringNear,
    DaemonRequest,
    Keeping,
    KeepingState,
    KeepRecords,
    ListMounts,
    MountDescription,
    MountList,
    Reached,
)
from fanstore.node.core import Node


def answer_near(job: NodeJob, request: DaemonRequest) -> Message | None:
    """Returns the answer to a request of `fanstore warmup`; None for other requests. Raises
    ValueError or OSError for one that cannot be answered."""
    if isinstance(request, ListMounts):
        mounts = [_describe(item) for item in job.served]
        return MountList(mounts=mounts, dropped=_dropped(job))
    if isinstance(request, BringNear):
        return _bring_near(job, request)
    if isinstance(request, KeepRecords):
        records = _checked(request.records)
        return Keeping(number=_node(job).fill_first(_mount(job, request.mount), records))
    if isinstance(request, AskKeeping):
        (number,) = _checked([request.number])
        return KeepingState(goes_on=_node(job).is_filling(number))
    return None


def _bring_near(job: NodeJob, request: BringNear) -> Reached:
    records, blocks = _checked(request.records), _checked(request.blocks)
    if len(records) != len(blocks):
        raise ValueError("not as many blocks as records")
    asked = None if job.cache is None else job.cache.ask_host(request, Reached)
    if asked is not None:
        return asked
    reached = _node(job).reach(_mount(job, request.mount), records, blocks)
    return Reached(reached=reached, dropped=_dropped(job))


def _dropped(job: NodeJob) -> int:
    """Returns how many hints were dropped so far for want of room."""
    return 0 if job.server is None else job.server.figures().hints_dropped


def _describe(item: ServedDataset) -> MountDescription:
    return MountDescription(
        prefix=item.prefix.path,
        alias=item.prefix.alias,
        index=os.path.abspath(item.dataset.index_path),
        directory=os.path.realpath(item.dataset.directory),
        staged=item.staged.path if item.staged else "",
        places=[int(place.state) for place in item.staging.places],
    )


def _node(job: NodeJob) -> Node:
    if job.server is None:
        raise ValueError("all files are on the local disk")
    return job.server.node


def _mount(job: NodeJob, number: int) -> int:
    if not 0 <= number < len(job.served):
        raise ValueError("no such mount")
    return number


def _checked(numbers: Sequence[int]) -> Sequence[int]:
    if len(numbers) > NUMBERS_MAX:
        raise ValueError("too long a list")
    if not all(0 <= number < 1 << 32 for number in numbers):
        raise ValueError("not numbers of 32 bits")
    return numbers
