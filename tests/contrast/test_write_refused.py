"""Changing an input fails as on a read-only bind mount, and changes nothing. (New names beside
inputs are outputs: see test_outputs_*.py.)

Where such a mount can be made (as root) it is the plain side; elsewhere what each case itself
expects, written down from such a mount, is what is checked.
"""

from __future__ import annotations

import shutil
import sys

import pytest
from arena import Arena
from harness import Case, compare, run_side, snapshot
from programs import CLIENTS, Programs, compiled_cases, python_cases
from soak import combined, one_of

SHELL = [
    Case("touch", 'touch "$T/text/x"', exit=1),
    Case("touch_c_missing", 'touch -c "$T/text/none"; echo $?'),
    Case("rm", 'rm "$T/text/x"', exit=1),
    Case("rm_rf", 'rm -rf "$T/hard/sub" "$T/text/x"', exit=1),
    Case("rm_f_missing", 'rm -f "$T/text/none"; echo $?'),
    Case("mv_inside", 'mv "$T/text/x" "$T/text/y"', exit=1),
    Case("mv_out", 'mv "$T/text/x" .', exit=1),
    Case("cp_over", 'cp /etc/passwd "$T/text/x"', exit=1),
    Case("cp_f_over", 'cp -f /etc/passwd "$T/text/x"', exit=1),
    Case("mkdir_p_existing", 'mkdir -p "$T/text/sub"; echo $?'),
    Case("rmdir", 'rmdir "$T/empty_dir"', exit=1),
    Case(
        "chmod_chown",
        'chmod 600 "$T/text/x"; chown 1 "$T/text/x"; chmod -R u+w "$T/text/sub"',
        exit=1,
    ),
    Case("truncate", 'truncate -s 0 "$T/text/x"', exit=1),
    Case("redirect_over", 'echo new > "$T/text/x"', exit=1),
    Case("redirect_append", 'echo new >> "$T/text/x"', exit=1),
    Case("redirect_noclobber", 'set -C; echo new > "$T/text/x"', exit=1),
    Case("redirect_read_write", 'exec 5<> "$T/text/x"', exit=1),
    Case("dash_redirect", 'echo new > "$T/text/x"', exit=2, shell="dash"),
    Case("cp_l", 'cp -l "$T/text/x" .', exit=1),
    Case("tee", 'echo new | tee "$T/text/x"', exit=1),
    Case(
        "dd_conv_notrunc",
        'dd if=/dev/zero of="$T/text/x" bs=1 count=1 conv=notrunc status=none',
        exit=1,
    ),
    Case("find_delete", 'find "$T/hard/sub" -delete', exit=1),
    Case("test_w", 'cd "$T"; for p in text/x text/hello.txt none; do test -w $p; echo $p $?; done'),
    Case("find_writable_files", 'find "$T/text" -type f -writable; echo $?'),
    Case("patch_like_ed", 'cd "$T/text" && printf "x" > hello.txt; cat hello.txt'),
]
PYTHON = python_cases("py_write.py")
COMPILED = compiled_cases("c_write.c")
ROADS = compiled_cases("c_roads.c")


# bash finds out by itself that a file is there, and link(2) that it is on another file system.
REFUSALS = (b"Read-only file system", b"cannot overwrite existing", b"Invalid cross-device link")


def label(value: Case | tuple[str, str] | str) -> str:
    return value[1] if isinstance(value, tuple) else str(value)


def refused(arena: Arena, argv: list[str], codec: str, bind: bool, exit: int = 0) -> None:
    if bind:
        compare(arena, argv, codec, exit=exit, read_only=True)
        return
    outcome = run_side(arena, arena.mounted(codec), argv)
    assert outcome.exit == exit, outcome
    said = outcome.stderr + outcome.stdout
    assert exit == 0 or any(word in said for word in REFUSALS), outcome


@pytest.mark.parametrize("case, codec", combined(SHELL, ["store", "over"]), ids=label)
def test_shell(arena: Arena, case: Case, codec: str, can_bind_read_only: bool) -> None:
    for program in (case.shell, *case.needs):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    refused(arena, [case.shell, "-c", case.command], codec, can_bind_read_only, case.exit)


@pytest.mark.parametrize("case, codec", one_of(2, combined(PYTHON, ["store", "over"])), ids=label)
def test_python(arena: Arena, case: tuple[str, str], codec: str, can_bind_read_only: bool) -> None:
    refused(
        arena, [sys.executable, "-u", str(CLIENTS / case[0]), case[1]], codec, can_bind_read_only
    )


@pytest.mark.parametrize("case", COMPILED, ids=lambda case: case[1])
def test_compiled(
    arena: Arena, programs: Programs, case: tuple[str, str], can_bind_read_only: bool
) -> None:
    refused(arena, [programs.path(case[0]), case[1]], "store", can_bind_read_only)


@pytest.mark.parametrize("case, codec", combined(ROADS, ["store", "over"]), ids=label)
def test_roads_from_outside(
    arena: Arena, programs: Programs, case: tuple[str, str], codec: str, can_bind_read_only: bool
) -> None:
    refused(arena, [programs.path(case[0]), case[1]], codec, can_bind_read_only)


def test_nothing_was_changed(arena: Arena) -> None:
    """Last here: the originals under the prefix, the packs and the plain tree are as made."""
    arena.mounted("over")
    original = snapshot(arena.plain.root, times=True)
    assert original == snapshot(arena.prefix("over"), times=True)
    for codec, before in arena.digests.items():
        assert arena.digest(codec) == before, codec
