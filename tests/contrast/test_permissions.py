"""Mode bits for users other than root: within one process, and for a whole job of another user."""

# ruff: noqa: E501 (a command stays on one line)

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from arena import NOBODY, Arena, as_user
from harness import LS_SIZES, Case, compare
from programs import CLIENTS, python_cases
from soak import one_of

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

JOB = [
    Case("cat_each_mode", 'cd "$T/modes" && cat *', exit=1),
    Case("ls_lR", 'ls -lR "$T/modes"', exit=1, normalise=LS_SIZES),
    Case(
        "find_reports_denied",
        'find "$T/modes" | sort; find "$T/modes" -readable | sort; find "$T/modes" -executable | sort',
    ),
    Case(
        "test_r_and_x",
        'cd "$T/modes"; for f in *; do test -r $f; echo $f r $?; test -x $f; echo $f x $?; done',
    ),
    Case("cp_r_reports_denied", 'cp -r "$T/modes" .', exit=1),
    Case("grep_r_reports_denied", 'grep -r mode "$T/modes" | sort', exit=0),
    Case("cd_denied", 'cd "$T/modes/d0700"', exit=1),
    Case("redirect_denied", 'cat < "$T/modes/m0600"', exit=1),
    Case("script_runs", '"$T/scripts/hello.sh" as nobody'),
    Case("exec_denied", '"$T/modes/m0600"', exit=126),
    Case("tar_reports_denied", 'tar -C "$T" -cf /dev/null modes', exit=2),
    Case("md5sum", 'md5sum "$T"/bin/*'),
]


@as_root
@pytest.mark.parametrize("case", one_of(2, python_cases("py_perm.py")), ids=lambda case: case[1])
def test_in_one_process(arena: Arena, case: tuple[str, str]) -> None:
    compare(arena, [sys.executable, "-u", str(CLIENTS / case[0]), case[1]], "store")


@as_root
@pytest.mark.parametrize("case", JOB, ids=lambda case: case.name)
def test_job_of_nobody(arena: Arena, case: Case) -> None:
    """The daemon belongs to nobody as well; its dataset was prepared by root."""
    probe = as_user(NOBODY)
    done = subprocess.run(
        [*probe, sys.executable, "-c", "import fanstore"], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("nobody may not run this Python: its folders are closed to other users")
    compare(
        arena,
        ["bash", "-c", case.command],
        "nobody",
        exit=case.exit,
        normalise=case.normalise,
        sort_stderr=True,
        user=NOBODY,
    )
