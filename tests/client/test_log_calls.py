"""FANSTORE_LOG_CALLS: a line for each call that is given a path, and none without the variable."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from serving import Stage, make_stage

LINE = re.compile(r'fanstore\[\d+\] +(\w+) "(.*)" (\w+) = (-?\d+)(?: (\w+) \((\d+)\))?')
CALLS = r"""
import os, sys
os.stat("f01")
open("f01").close()
try: open("none")
except FileNotFoundError: pass
try: os.mkdir("f01")
except FileExistsError: pass
os.mkdir("made")
os.rename("made", "moved")
os.listdir("moved")
os.access("/etc/passwd", os.R_OK)
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def run_logged(stage: Stage, script: str, **variables: str) -> str:
    """What a shell script in the mount says to its descriptor 9, which is stdout."""
    command = f'cd "{stage.mount}" && {script}'
    done = stage.call(
        *("run", "--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet"),
        *("--output-dir", str(stage.path / "out"), "--", "sh", "-c", command),
        **variables,
    )
    return done.stdout


def lines(said: str) -> list[tuple[str, ...]]:
    """(call, path, what it was taken for, answer, errno's name) of each line."""
    found = [LINE.fullmatch(line) for line in said.splitlines()]
    assert all(found), said
    return [match.group(1, 2, 3, 4, 5) for match in found if match is not None]


def test_each_path_is_told_with_what_it_was_taken_for(stage: Stage) -> None:
    script = f"FANSTORE_LOG_CALLS=9 python3 -S -c '{CALLS}' 9>&1 >/dev/null"
    told = lines(run_logged(stage, script))
    plain = [(call, path, where, error) for call, path, where, _, error in told]
    at = plain.index(("stat", "f01", "input", None))
    assert ("open", "f01", "input", None) in plain[at:]
    assert ("open", "none", "missing", "ENOENT") in plain[at:]
    assert ("mkdir", "f01", "input", "EEXIST") in plain[at:]
    moved = plain.index(("mkdir", "made", "output", None))
    assert plain[moved + 1] == ("rename", "made", "output", None)
    assert plain[moved + 2] == ("to", "moved", "output", None)
    assert ("opendir", "moved", "output", None) in plain[moved:]
    assert plain[-1] == ("access", "/etc/passwd", "outside", None)
    (opened,) = (answer for call, path, _, answer, _ in told if (call, path) == ("open", "f01"))
    assert int(opened) > 2


def test_a_path_cannot_break_a_line(stage: Stage) -> None:
    script = "FANSTORE_LOG_CALLS=9 cat 'two\nlines' 9>&1 2>/dev/null"
    told = lines(run_logged(stage, script + " || true"))
    assert any(path == "two?lines" and where == "missing" for _, path, where, _, _ in told)


@pytest.mark.parametrize("value", ["", "x", "-1", "9x", "77"])
def test_what_is_no_open_descriptor_logs_nothing(stage: Stage, value: str) -> None:
    script = f"FANSTORE_LOG_CALLS={value} cat f01 2>&1 9>&1 | wc -c"
    assert run_logged(stage, script).strip() == "1001"


REUSED = """
import os, sys
os.stat("f01")
os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 9)
os.stat("f01")
"""


def test_a_file_that_has_the_number_of_a_closed_log_is_left_alone(stage: Stage) -> None:
    """Nor is one in a program that inherits the variable, but not the descriptor."""
    mine, other = (
        shlex.join([sys.executable, "-c", REUSED, str(stage.path / name)])
        for name in ("mine", "other")
    )
    script = f"export FANSTORE_LOG_CALLS=9; {mine} 9>{stage.path}/log && {other} 9>&-"
    run_logged(stage, script)
    assert 'stat "f01"' in (stage.path / "log").read_text()
    assert (stage.path / "mine").read_bytes() == (stage.path / "other").read_bytes() == b""
