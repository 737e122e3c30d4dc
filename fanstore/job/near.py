"""The daemon's side of `fanstore warmup`: where files are, and bringing them near.

Each request is answered at once, and nothing is kept of it: the command asks again until all is
here, and where it is killed nothing has to be undone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fanstore.job.job import Job
from fanstore.job.served import ServedDataset
from fanstore.node.core import Node

MOST = 4096  # records or blocks in one request


def _mounts(job: Job, _: dict[str, Any]) -> dict[str, Any]:
    """What there is: the mounts, by the numbers that the other requests name."""
    return {"mounts": [_about(item) for item in job.served], "dropped": _dropped(job)}


def _dropped(job: Job) -> int:
    """How many hints found no room so far."""
    return 0 if job.server is None else int(job.server.figures()["node"]["hints_dropped"])


def _about(item: ServedDataset) -> dict[str, Any]:
    return {
        "prefix": item.prefix.path,
        "alias": item.prefix.alias,
        "index": os.path.abspath(item.dataset.index_path),
        "directory": os.path.realpath(item.dataset.directory),
        "staged": item.staged.path if item.staged else "",
        "places": [int(place.state) for place in item.staging.places],
    }


def _reach(job: Job, request: dict[str, Any]) -> dict[str, Any]:
    """Blocks are to come near: where each of them is by now."""
    records, blocks = _ids(request["records"]), _ids(request["blocks"])
    if len(records) != len(blocks):
        raise ValueError("not as many blocks as records")
    reached = _node(job).reach(_mount(job, request), records, blocks)
    return {"reached": reached, "dropped": _dropped(job)}


def _keep(job: Job, request: dict[str, Any]) -> dict[str, Any]:
    """Records of this node's share are to come to its disk: a number to ask for them by."""
    number = _node(job).fill_first(_mount(job, request), _ids(request["records"]))
    return {"number": number}


def _keeping(job: Job, request: dict[str, Any]) -> dict[str, Any]:
    (number,) = _ids([request["number"]])
    return {"goes_on": _node(job).is_filling(number)}


def _node(job: Job) -> Node:
    if job.server is None:
        raise ValueError("all files are on the local disk")
    return job.server.node


def _mount(job: Job, request: dict[str, Any]) -> int:
    (mount,) = _ids([request["mount"]])
    if mount >= len(job.served):
        raise ValueError("no such mount")
    return mount


def _ids(values: Any) -> list[int]:
    if not isinstance(values, list) or len(values) > MOST:
        raise ValueError("not a list, or too long a one")
    if not all(type(value) is int and 0 <= value < 1 << 32 for value in values):
        raise ValueError("not numbers of 32 bits")
    return values


OPERATIONS: dict[Any, Callable[[Job, dict[str, Any]], dict[str, Any]]] = {
    "mounts": _mounts, "reach": _reach, "keep": _keep, "keeping": _keeping,
}  # fmt: skip


def answer(job: Job, request: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer to a request whose `op` is one of OPERATIONS."""
    try:
        return OPERATIONS[request["op"]](job, request)
    except (KeyError, ValueError, OSError) as error:
        return {"error": f"a request that cannot be answered: {error}"}
