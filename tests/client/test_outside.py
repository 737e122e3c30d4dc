"""FANSTORE_OFF: a command outside the mounts of its job; what a program sees that left the job."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from serving import Stage, make_stage

OFF = r"""
f="$0/f01"
cat "$f"; FANSTORE_OFF=1 cat "$f"; FANSTORE_OFF=0 cat "$f"; FANSTORE_OFF= cat "$f"
FANSTORE_OFF=1 sh -c 'cat "$0"; sh -c "cat \"\$0\"" "$0"; env -u FANSTORE_OFF cat "$0"' "$f"
env -u LD_PRELOAD FANSTORE_OFF=1 cat "$f"
FANSTORE_OFF=1 cat < "$f"
{ read a; FANSTORE_OFF=1 cat; } < "$0/lines"
(export FANSTORE_OFF=1; exec cat "$f")
"""

# Each runs itself again until what brings it under the job is gone.
LOOPS = {
    "unset": 'if [ -n "$LD_PRELOAD" ]; then unset LD_PRELOAD; exec "$0" "$@"; fi',
    "env -u": 'if [ -n "$LD_PRELOAD" ]; then exec env -u LD_PRELOAD "$0" "$@"; fi',
    "env -i": 'if [ -n "$LD_PRELOAD$FANSTORE_JOB_DIR" ]; then exec env -i "$0" "$@"; fi',
    "another": (
        'case "$LD_PRELOAD" in *fanstore*) export LD_PRELOAD=libdl.so.2; exec "$0" "$@";; esac\n'
        '[ "$LD_PRELOAD" = libdl.so.2 ] || exit 8'
    ),
}


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def test_a_command_runs_outside_the_job(stage: Stage) -> None:
    source = stage.source(files={"f01": b"packed\n", "lines": b"one\ntwo\n"})
    dataset = stage.dataset(source)
    (source / "f01").write_bytes(b"original\n")
    where = ("--dataset", str(dataset), "--mount", str(source), "--quiet")
    said = stage.call("run", *where, "--", "bash", "-c", OFF, str(source)).stdout.split()
    inside, outside = "packed", "original"
    assert said[:4] == [inside, outside, inside, inside]
    assert said[4:7] == [outside, outside, inside]
    assert said[7:] == [outside, inside, "two", outside]


def test_a_job_that_starts_outside_another_is_one(stage: Stage) -> None:
    done = stage.call(
        *("run", "--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--quiet", "--"),
        *("sh", "-c", f'wc -c < "{stage.mount}/f01"; echo "$FANSTORE_OFF."'),
        FANSTORE_OFF="1",
    )
    assert done.stdout.split() == ["1001", "."]


def test_a_job_may_be_started_within_another_that_was_left(stage: Stage) -> None:
    """Without FANSTORE_OFF it is refused: test_run.py."""
    data, inner = str(stage.dataset()), str(stage.path / "inner")
    read = f'wc -c < "{inner}/f01"; test -e "{stage.mount}/f01" || echo none; '
    read += f'env -i wc -c "{inner}/f01"'
    run = f'"$0" -m fanstore run --quiet --dataset {data} --mount {inner} -- sh -c "$1"'
    script = f'FANSTORE_OFF=1 {run}; wc -c < "{stage.mount}/f01"'
    where = ("--quiet", "--dataset", data, "--mount", str(stage.mount))
    done = stage.call("run", *where, "--", "sh", "-c", script, sys.executable, read)
    assert done.stdout.split() == ["1001", "none", "1001", f"{inner}/f01", "1001"]
    assert stage.leftovers() == []


@pytest.mark.parametrize("how", LOOPS)
def test_a_script_that_leaves_the_job_by_itself_ends(stage: Stage, how: str) -> None:
    script, rounds = stage.path / "script", stage.path / "rounds"
    script.write_text(
        f'#!/bin/bash\necho x >> "{rounds}"\n[ "$(wc -l < "{rounds}")" -gt 9 ] && exit 9\n'
        f'{LOOPS[how]}\nwc -c < "$1"; cat "$1" | wc -c\n'
    )
    script.chmod(0o755)
    done = stage.run(stage.dataset(), str(script), str(stage.mount / "f01"))
    assert (rounds.read_text(), done.stdout.split()) == ("x\nx\n", ["1001", "1001"])
