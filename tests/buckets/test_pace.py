"""Requests to buckets are held to the rates that the user allows."""

from __future__ import annotations

import os
import threading
import time
from math import inf

import pytest

from fanstore.buckets import patience
from fanstore.buckets.bucket import check_nothing
from fanstore.buckets.patience import PACE, BucketRefused, Pace, patiently
from fanstore.errors import FanstoreError

BLOCK = 1 << 20


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(patience, "time", clock)
    return clock


def begun_within(clock: Clock, pace: Pace, seconds: float, count: int) -> int:
    """Returns how many requests for `count` bytes begin within some seconds."""
    end_s, begun = clock.now_s + seconds, 0
    while True:
        pace.wait(count, check_nothing)
        if clock.now_s >= end_s - 1e-6 or begun == 1000:
            return begun
        begun += 1


@pytest.mark.parametrize(
    ("requests_per_s", "bytes_per_s", "count", "expected"),
    [
        (5, inf, BLOCK, 50),
        (inf, 3 * BLOCK, BLOCK, 30),
        (5, 3 * BLOCK, BLOCK, 30),
        (5, 3 * BLOCK, 100, 50),
        (0.5, inf, 0, 5),
        (inf, 3 * BLOCK, 0, 1000),
        (inf, inf, BLOCK, 1000),
    ],
)
def test_so_many_begin(
    clock: Clock, requests_per_s: float, bytes_per_s: float, count: int, expected: int
) -> None:
    pace = Pace()
    pace.limit(requests_per_s, bytes_per_s)
    assert begun_within(clock, pace, 10, count) == expected


def test_what_was_not_asked_for_is_not_asked_for_later(clock: Clock) -> None:
    pace = Pace()
    pace.limit(5, inf)
    clock.now_s += 100
    assert begun_within(clock, pace, 10, 0) == 50


def test_repetitions_count_and_have_their_time(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    pace, tries = Pace(), [0]
    pace.limit(0.01, inf)  # a wait is longer than the deadline
    monkeypatch.setattr(patience, "PACE", pace)
    begun_s = clock.now_s

    def request() -> int:
        tries[0] += 1
        if tries[0] < 4:
            raise BucketRefused("503", 503, passing=True)
        return tries[0]

    assert patiently(request, "s3://b/p", 0, 50, check_nothing) == 4
    assert clock.now_s == pytest.approx(begun_s + 300)


def test_the_end_of_a_job_ends_the_wait(clock: Clock) -> None:
    def check() -> None:
        raise FanstoreError("the job ends")

    pace = Pace()
    pace.limit(0.01, inf)
    pace.wait(0, check)
    with pytest.raises(FanstoreError, match="ends"):
        pace.wait(0, check)


def test_a_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    taken, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with PACE._lock:
            taken.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    pid = os.fork()
    if pid == 0:
        PACE.wait(0, check_nothing)
        os._exit(7)
    try:
        for _ in range(600):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.1)
        else:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            pytest.fail("the child hangs")
        assert os.waitstatus_to_exitcode(status) == 7
    finally:
        leave.set()
        thread.join()
