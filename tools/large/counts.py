"""What the node daemon of a rank has counted: asked by a program of the job at the end of each
epoch. Needs nothing but Python."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

Counts = Mapping[str, float]


def counts() -> Counts:
    """Returns what has been counted so far; nothing outside of a job."""
    if "FANSTORE_JOB_DIR" not in os.environ:
        return {}
    with socket.socket(socket.AF_UNIX) as stream:
        job = os.open(os.environ["FANSTORE_JOB_DIR"], os.O_PATH)
        stream.connect(f"/proc/self/fd/{job}/live")
        os.close(job)
        stream.sendall(b"GET /figures?ranks=own HTTP/1.0\r\n\r\n")
        with stream.makefile("rb") as answer:
            _, _, content = answer.read().partition(b"\r\n\r\n")
    return _chosen(json.loads(content)["ranks"][0])


def _chosen(figures: Any) -> Counts:
    """Returns the counts about files of other ranks, for the reads of all programs of the rank: its
    map server is one of them.

    fetched: bytes that came from other ranks; ahead: bytes, and blocks, that no program had asked
    for when they were fetched; late: blocks that a program asked for before they had come; unread:
    bytes that the loader passed by. asked: bytes that programs took from the block cache; found: of
    these, the bytes that were there when they asked. parts: parts of blocks that programs read;
    missed: of these, the ones that they asked the daemon for. waited_s: seconds of waits for other
    ranks and the cache, of all threads together."""
    node, stalls, programs = figures["node"] or {}, figures["stalls"], figures["counters"]
    found, missed = programs["cache_hits"], programs["cache_misses"]
    return {
        "fetched": node.get("fetched_bytes", 0), "ahead": node.get("ahead_bytes", 0),
        "blocks": node.get("ahead", 0), "late": node.get("ahead_late", 0),
        "unread": node.get("ahead_unread_bytes", 0),
        "asked": programs["remote_bytes"], "found": stalls["cache"]["bytes"],
        "parts": found + missed, "missed": missed,
        "waited_s": (stalls["rank"]["ns"] + stalls["cache"]["ns"]) / 1e9,
    }  # fmt: skip


def grown(before: Counts, after: Counts) -> Counts:
    """Returns by how much the counts have grown."""
    return {name: after[name] - before.get(name, 0) for name in after}


def added(of_ranks: Sequence[Counts]) -> Counts:
    """Returns the sums over ranks."""
    return {name: sum(each[name] for each in of_ranks) for name in of_ranks[0]}
