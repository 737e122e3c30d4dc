"""What killed programs were writing is placed under names that say so."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from mpiexec import needs_ranks
from ranks import make_rank_stage
from serving import Stage, daemon_of, make_stage, wait_for

from fanstore.outputs.model.entries import partial_names


def tree(path: Path) -> dict[str, bytes | None]:
    """All that is in a directory: the bytes of files, None for directories."""
    found = {os.fspath(each.relative_to(path)): each for each in path.rglob("*")}
    return {name: None if each.is_dir() else each.read_bytes() for name, each in found.items()}


def test_names_that_are_too_long_are_cut() -> None:
    one, two, *_ = partial_names(b"n" * 255)
    assert one == b"n" * 247 + b".partial" and two == b"n" * 245 + b".partial.2"


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def where(stage: Stage) -> list[str]:
    data = str(stage.dataset(stage.source(files={"input": b"input"})))
    return ["--dataset", data, "--mount", str(stage.mount), "--output-dir", str(stage.path / "out")]


HALF = "exec 3>{mount}/log; echo half >&3; kill -9 $$"


def test_a_killed_command(stage: Stage) -> None:
    """Its code stays; so does that of a command that saw a child killed and went on."""
    out = stage.path / "out"
    options = where(stage)
    half = HALF.format(mount=stage.mount)
    done = stage.call("run", *options, "--", "sh", "-c", half, code=137)
    assert tree(out) == {"log.partial": b"half\n"}
    assert f"in {out}, but not finished when its writer was killed: log.partial" in done.stderr
    assert "outputs: 1 file in " in done.stderr
    command = ["sh", "-c", f"sh -c '{half}'; cat {stage.mount}/log"]
    done = stage.call("run", "--quiet", *options, "--", *command)
    assert done.stdout == "half\n" and "log.partial" in done.stderr
    assert set(tree(out)) == {"log.partial", "log.partial.~1~"}, "another job's is kept"
    assert stage.leftovers() == []


def test_dropped_where_that_is_wished(stage: Stage) -> None:
    half = HALF.format(mount=stage.mount)
    env = {"FANSTORE_PARTIAL_OUTPUTS": "drop"}
    done = stage.call("run", *where(stage), "--", "sh", "-c", half, code=137, **env)
    assert tree(stage.path / "out") == {} and "partial" not in done.stderr


def test_a_killed_daemon(stage: Stage) -> None:
    script = (
        f"exec 3>{stage.mount}/log; echo half >&3; touch {stage.path}/ready; "
        f"until test -e {stage.path}/go; do sleep 0.1; done; echo more >&3; exec 3>&-"
    )
    with stage.running("run", *where(stage), "--", "sh", "-c", script) as run:
        wait_for((stage.path / "ready").exists, "the command")
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        wait_for(lambda: not daemon_of(run.pid), "the wrapper to notice")
        (stage.path / "go").touch()
        _, stderr = run.communicate(timeout=60)
    assert run.returncode == 125
    assert tree(stage.path / "out") == {"log": b"half\nmore\n"}, stderr
    assert stage.leftovers() == []


def test_what_is_written_on_after_the_command(stage: Stage) -> None:
    """A process that it left behind: as much as there is is kept on the node, and named."""
    left = f"import time; f = open('{stage.mount}/log', 'w'); f.write('half'); f.flush(); "
    left += f"open('{stage.path}/ready', 'w'); time.sleep(600)"
    script = '"$0" -c "$1" >/dev/null 2>&1 & echo $! >"$2/pid"; until test -e "$2/ready"; '
    script += "do sleep 0.1; done"
    command = ["sh", "-c", script, sys.executable, left, str(stage.path)]
    try:
        done = stage.call("run", *where(stage), "--", *command, code=125)
    finally:
        os.kill(int((stage.path / "pid").read_text()), signal.SIGKILL)
    assert f"still being written, not published: {stage.mount}/log" in done.stderr
    assert "kept on this node instead" in done.stderr
    (found,) = stage.local.rglob("unstaged/*/*")
    assert (found.name, found.read_bytes()) == ("log.partial", b"half")


@needs_ranks
def test_killed_writers_on_several_ranks(tmp_path: Path) -> None:
    """Each says whose it was."""
    ranks = make_rank_stage(tmp_path, 2)
    half = "exec 3>d/log$FANSTORE_RANK; echo $FANSTORE_RANK >&3; kill -9 $$"
    script = f"cd $FANSTORE_MOUNT_PREFIX; mkdir -p d; sh -c '{half}'; true"
    out = tmp_path / "out"
    options = ("--output-dir", str(out))
    done = ranks.run_ranks(2, ranks.dataset(), "sh", "-c", script, options=options)
    assert tree(out) == {"d": None, "d/log0.partial": b"0\n", "d/log1.partial": b"1\n"}
    assert f"in {out}, but not finished when its writer was killed: d/log" in done.stderr
    ranks.assert_clean()
