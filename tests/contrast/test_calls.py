"""Call by call, what POSIX and Linux say of it: of files of a dataset, and of files made in a job.

Each case of clients/calls_*.c is a small program; see calls.h there.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from arena import Arena
from case_set import Set
from output_sets import parameters
from programs import Programs
from recorded import Recordings, check, check_staged

PARTS = tuple(
    f"calls_{part}"
    for part in ("dirs", "fcntl", "fd", "fts", "map", "paths", "process", "stdio", "surface")
)
CALLS = Set("calls", parts=PARTS)


def label(case: object) -> str:
    assert isinstance(case, tuple)
    _, name, kind = case
    return f"{name.removeprefix('calls_')}-{kind}"


@pytest.fixture(scope="session")
def call_recordings(arena: Arena, programs: Programs) -> Iterator[Recordings]:
    """All of the cases, run on both sides."""
    yield Recordings(arena, programs, (CALLS,), "calls")


@pytest.mark.parametrize("case", parameters((CALLS,)), ids=label)
def test_case(call_recordings: Recordings, case: tuple[Set, str, str]) -> None:
    check(call_recordings, *case)


def test_all_is_in_the_output_directory(call_recordings: Recordings) -> None:
    check_staged(call_recordings, CALLS)
