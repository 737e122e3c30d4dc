"""Messages come back as they were sent, and what is none of them is named, whoever sent it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from fanstore._native import ffi
from fanstore.messages.figures import Counters, NodeFigures, OutputFigures
from fanstore.messages.job import (
    AbsentRank,
    Failure,
    Flushing,
    LeftJob,
    Ready,
    Stall,
    TraceFigures,
    WaitingOutputs,
)
from fanstore.messages.message import (
    MessageError,
    decode,
    decode_one_of,
    encode,
    fields_of,
    from_line,
    replace,
    to_line,
    values_of,
)
from fanstore.messages.requests import REQUESTS, BringNear, StopJob

OUTPUTS = OutputFigures(
    output_dir="/out", published=3, staged=1, staged_bytes=10, gone=0, waiting=2, waiting_bytes=5,
    copied_bytes=12, drafts=0, unfinished=["a", "b"], blocked="",
)  # fmt: skip
READY = Ready(
    job_id="ab", job_directory="/j", kind="run", rank=0, host="n", first_id="ab", metrics="",
    world_size=1, daemon_pid=7, preload="/p.so", started_s=1.5, datasets=(), trace=None,
    locks=["/lock"], warnings=[],
)  # fmt: skip


def test_counts_have_the_names_of_the_core() -> None:
    counters = [name for name, _ in ffi.typeof("struct fan_counters").fields if name != "stalls"]
    assert list(fields_of(Counters)) == counters
    figures = [name for name, _ in ffi.typeof("struct fan_node_stats").fields]
    assert list(fields_of(NodeFigures)) == figures


@pytest.mark.parametrize(
    "message", [READY, Flushing(**values_of(OUTPUTS)), StopJob(flush=False), OUTPUTS], ids=repr
)
def test_a_message_comes_back(message: Any) -> None:
    plain = from_line(to_line(message))
    again = decode(type(message), plain)
    assert encode(again) == encode(message) == plain
    assert pickle.loads(pickle.dumps(message)) == message


def test_bases_come_first_and_nothing_is_told_of_what_is_not_there() -> None:
    assert list(encode(READY))[:3] == ["type", "job_id", "job_directory"]
    assert encode(READY)["trace"] == {}  # which readers of `--json` know
    assert "silent_s" not in encode(AbsentRank(rank=1, host="n", state="lost"))
    left = LeftJob(job_id="a", job_directory="/j", outputs=WaitingOutputs())
    assert encode(left) == {
        "job_id": "a", "job_directory": "/j", "datasets": [], "state": "dead", "outputs": {}
    }  # fmt: skip


def test_messages_cannot_be_changed_or_misspelt() -> None:
    with pytest.raises(AttributeError):
        OUTPUTS.staged = 2  # type: ignore[misc]
    for wrong in ({"line": "x", "lines": "y"}, {"lines": "y"}):
        with pytest.raises((TypeError, AttributeError)):
            Stall(**wrong)
    assert replace(OUTPUTS, staged=2).staged == 2 and OUTPUTS.staged == 1


def test_what_a_newer_peer_adds_is_skipped() -> None:
    assert decode(Stall, {"line": "x", "colour": "red"}) == Stall(line="x")
    kinds = (Stall, Failure)
    assert decode_one_of(kinds, {"type": "stall", "line": "x"}) == Stall(line="x")
    assert decode_one_of(kinds, {"type": "hurray"}) is None
    assert decode_one_of(kinds, {}) is None


TRACE = {"path": "/t", "problem": ""}


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({**encode(READY), "rank": "0"}, "rank = '0'; expected is int"),
        ({**encode(READY), "rank": True}, "rank = True; expected is int"),
        ({**encode(READY), "locks": "/lock"}, "locks = '/lock'; expected is a list"),
        ({**encode(READY), "locks": ["/lock", 3]}, r"locks\[1\] = 3; expected is str"),
        ({**encode(READY), "trace": {**TRACE, "path": 3}}, "trace.path = 3"),
        ({**encode(READY), "trace": {"path": "/t"}}, "'problem' in trace, which TraceFigures"),
        ({**encode(READY), "datasets": [3]}, r"datasets\[0\] = 3; expected is an object"),
        ({"type": "ready"}, "without 'job_id', which Ready has: another version"),
        ([], "expected is an object"),
    ],
)
def test_what_is_malformed_is_named(plain: Any, said: str) -> None:
    with pytest.raises(MessageError, match=said):
        decode(Ready, plain)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"3", b"\xff", b"[" * 100_000, b'{"a": ' * 100_000, b"1" * 100_000]
)
def test_lines_that_are_no_messages(line: bytes) -> None:
    with pytest.raises(MessageError) as raised:
        from_line(line)
    assert len(str(raised.value)) < 300


def test_numbers_beyond_all_bounds_are_taken_as_they_are() -> None:
    """Whoever uses them checks them."""
    line = json.dumps({"op": "reach", "mount": 1 << 70, "records": [-1], "blocks": [0]}).encode()
    request = decode_one_of(REQUESTS, from_line(line))
    assert isinstance(request, BringNear) and request.mount == 1 << 70
    assert decode(TraceFigures, TRACE) == TraceFigures(path="/t", problem="")
