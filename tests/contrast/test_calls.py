"""Call by call, what POSIX and Linux say of it: of files of a dataset, and of files made in a job.

Each case of clients/calls_*.c is a small program; see calls.h there. Beside them are whole programs
in other languages.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from arena import Arena
from case_set import Set
from language_cases import LANGUAGES
from output_sets import parameters
from programs import Programs
from recorded import Recordings, check, check_staged

PARTS = tuple(
    f"calls_{part}"
    for part in (
        *("async", "dirs_streams", "dirs_lists", "dirs_walks", "fcntl"),
        *("cancel", "fd_reads", "fd_numbers", "fd_copies", "map", "map_random", "old"),
        *("paths_open", "paths_links", "paths_names", "paths_facts", "preload"),
        *("process_start", "process_threads", "process_limits"),
        *("stdio_open", "stdio_data", "stdio_fread", "stdio_ends", "surface"),
    )
)
CALLS = Set("calls", parts=PARTS)
OTHERS = Set("languages", shell=LANGUAGES, others=True)
BOTH_SETS = (CALLS, OTHERS)


def label(case: object) -> str:
    assert isinstance(case, tuple)
    _, name, kind = case
    return f"{name.removeprefix('calls_')}-{kind}"


@pytest.fixture(scope="session")
def call_recordings(arena: Arena, programs: Programs) -> Iterator[Recordings]:
    """All of the cases, run on both sides."""
    yield Recordings(arena, programs, BOTH_SETS, "calls")


@pytest.mark.parametrize("case", parameters(BOTH_SETS, BOTH_SETS), ids=label)
def test_case(call_recordings: Recordings, case: tuple[Set, str, str]) -> None:
    check(call_recordings, *case)


@pytest.mark.parametrize("group", BOTH_SETS, ids=lambda group: group.label)
def test_all_is_in_the_output_directory(call_recordings: Recordings, group: Set) -> None:
    check_staged(call_recordings, group)
