"""The table of libc's calls: what its check finds."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("posix_table", ROOT / "tools" / "posix_table.py")
assert _spec is not None and _spec.loader is not None
posix_table = importlib.util.module_from_spec(_spec)
sys.modules["posix_table"] = posix_table
_spec.loader.exec_module(posix_table)
Row = posix_table.Row

DEFINITIONS = """
FAN_OLD(open, EMULATED, "p--", POINT, ALWAYS, open(P(A), B, C))
FAN_CALL(creat, CHANGES)
FAN_SYSCALL(openat, EMULATED, "dp--", POINT, ALWAYS, openat(A, P(B), C, D))
FAN_KERNEL(openat2, "dph-", POINT, ALWAYS, openat2(A, P(B), P(C), D))
FAN_OF_FILE(listen, ENOTSOCK)

FAN_CALL(chroot, REFUSED("EPERM, always"))
"""
SURFACE = """
# a comment
[passed through] a stream
    fread
    fgets fgetc

[unrelated]
    str* memcpy
"""


def test_rows_of_both_lists() -> None:
    assert list(posix_table.intercepted(DEFINITIONS)) == [
        Row(("open", "openat"), "emulated", ""),
        Row(("creat",), "emulated", posix_table.REMARK["CHANGES"]),
        Row(("listen",), "passed through", "ENOTSOCK of an input"),
        Row(("chroot",), "refused", "EPERM, always"),
    ]
    assert list(posix_table.surface(SURFACE)) == [
        Row(("fread", "fgets", "fgetc"), "passed through", "a stream"),
        Row(("str*", "memcpy"), "unrelated", ""),
    ]


def test_the_table_holds_what_is_not_passed_through() -> None:
    rows = [*posix_table.intercepted(DEFINITIONS), *posix_table.surface(SURFACE)]
    shown = posix_table.table(rows)
    assert "| `open` `openat` | emulated |  |" in shown
    assert "fread" not in shown
    assert "memcpy" not in shown


def test_the_table_holds_the_names_that_programmers_know() -> None:
    names = ("open", "open64", "__open_2", "getdents64")
    shown = posix_table.table([Row(names, "emulated", ""), Row(("_IO_init",), "not reached", "")])
    assert shown.splitlines()[2:] == ["| `open` `getdents64` | emulated |  |"]


def test_a_name_of_a_newer_libc_is_reported() -> None:
    rows = [*posix_table.intercepted(DEFINITIONS), *posix_table.surface(SURFACE)]
    known = {"open", "openat", "fread", "strlen", "memcpy"}
    assert list(posix_table.unlisted(known, rows)) == []
    assert [line.partition(":")[0] for line in posix_table.unlisted({*known, "openat3"}, rows)] == [
        "openat3"
    ]


def test_the_built_library_is_compared() -> None:
    rows = list(posix_table.intercepted(DEFINITIONS))
    assert list(posix_table.unlike({"open", "openat", "creat", "chroot", "listen"}, rows)) == []
    found = list(posix_table.unlike({"open", "openat", "creat", "listen", "other"}, rows))
    assert [line.partition(":")[0] for line in found] == ["chroot", "other"]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row(("chroot",), "refused", "always"), "begins with the errno"),
        (Row(("fo*",), "passed through", ""), "a pattern"),
        (Row(("read", "read"), "emulated", ""), "listed twice"),
        (Row(("read",), "ignored", ""), "no such treatment"),
    ],
)
def test_lists_that_are_wrong(row: object, problem: str) -> None:
    assert problem in "".join(posix_table.wrong_rows([row]))


def test_libc_is_found() -> None:
    path = posix_table.libc_path()
    if path is None:
        pytest.skip("not on glibc")
    names = posix_table.exports(path)
    if not names:
        pytest.skip("nm is not installed")
    assert {"open", "fopen", "strlen"} <= names
    assert "__libc_early_init" not in names
