"""C and C++ clients: every CASE of clients/*.c and *.cc, plain and fortified builds."""

from __future__ import annotations

import pytest
from arena import Arena
from harness import compare
from programs import Programs, compiled_cases, parameters
from soak import combined, one_of

METADATA = [
    case
    for source in ("c_names.c", "c_dirs.c", "c_inside_libc.c")
    for case in compiled_cases(source)
]
CONTENT = [
    case
    for source in ("c_stdio.c", "c_process.c", "c_corners.c", "cc_stream.cc")
    for case in compiled_cases(source)
]
FORTIFIED = ("-O2", "-D_FORTIFY_SOURCE=2")


def label(case: tuple[str, str] | str) -> str:
    return case if isinstance(case, str) else f"{case[0].partition('.')[0]}-{case[1]}"


@pytest.mark.parametrize("case", one_of(2, parameters(METADATA)), ids=label)
def test_names(arena: Arena, programs: Programs, case: tuple[str, str]) -> None:
    compare(arena, [programs.path(case[0]), case[1]], "store")


@pytest.mark.parametrize("case, codec", combined(parameters(CONTENT), ["store", "lz4"]), ids=label)
def test_content(arena: Arena, programs: Programs, case: tuple[str, str], codec: str) -> None:
    compare(arena, [programs.path(case[0]), case[1]], codec)


@pytest.mark.parametrize(
    "case", one_of(4, parameters(METADATA + compiled_cases("c_stdio.c"))), ids=label
)
def test_fortified(arena: Arena, programs: Programs, case: tuple[str, str]) -> None:
    compare(arena, [programs.path(case[0], *FORTIFIED), case[1]], "store")
