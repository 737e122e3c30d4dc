"""What a killed program was writing: kept under a name that says so, and never under its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mpiexec import needs_ranks
from object_files import make_object
from output_client import CREATE, Program, programs
from output_service import Served
from output_staging import tree
from ranks import make_rank_stage
from serving import Stage, daemon_of, make_stage, wait_for

from fanstore.dataset import Dataset
from fanstore.outputs.drafts.watch import Process
from fanstore.outputs.model.entries import split
from fanstore.outputs.model.partial import partial_names
from fanstore.outputs.model.wire import Op
from fanstore.outputs.stageout.journal import Header, Journal
from fanstore.outputs.stageout.rescue import left_behind, needs_rescue, rescue

pytest_plugins = ("output_fixtures",)

# In one process: what is kept, and as what.


@pytest.fixture
def kept(tmp_path: Path, dataset: Dataset) -> Iterator[Served]:
    made = Served(tmp_path, dataset, keep_partial=True)
    yield made
    made.service.close()


def write_and_die(served: Served, name: bytes, data: bytes, flags: int = CREATE) -> None:
    """A process that is killed while it has an output open."""
    with programs(served.path, 1) as (writer,):
        writer.call("write", writer.call("open", name, flags), data)
        writer.kill()
        assert not served.is_there(name) or flags != CREATE


def test_a_killed_writer_leaves_a_partial_output(kept: Served) -> None:
    write_and_die(kept, b"log", b"half")
    assert kept.client.read_file(b"log.partial") == b"half"
    assert not kept.is_there(b"log")
    assert kept.client.write_file(b"log", b"whole") == "SETTLED"
    assert kept.counted("partial") == 1


def test_the_end_waits_for_a_killed_writer_that_has_not_closed_its_files(
    kept: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel frees its memory first."""
    with programs(kept.path, 1) as (writer,):
        writer.call("write", writer.call("open", b"log"), b"half")

        def is_ending(process: Process) -> bool:
            if not process.dead:
                writer.kill()
            return not process.dead

        monkeypatch.setattr(Process, "is_ending", is_ending)
        kept.service.submit(kept.service.flush()).result(60)
    assert kept.counted("partial") == 1


def test_a_partial_output_takes_no_name_that_is_taken(kept: Served) -> None:
    """Be it an output's, another's of its kind or one that is being written."""
    for number in range(3):
        write_and_die(kept, b"log", b"%d" % number)
    assert [kept.client.read_file(b"log.partial" + n) for n in (b"", b".2", b".3")] == [
        b"0", b"1", b"2"
    ]  # fmt: skip
    kept.client.write_file(b"x.partial", b"own")
    with programs(kept.path, 1) as (other,):
        other.call("write", other.call("open", b"x.partial.2"), b"other's")
        write_and_die(kept, b"x", b"half")
    assert kept.client.read_file(b"x.partial") == b"own"
    assert kept.client.read_file(b"x.partial.3") == b"half"


def test_a_new_version_that_was_not_finished(kept: Served) -> None:
    kept.client.write_file(b"log", b"old")
    write_and_die(kept, b"log", b" and more", os.O_WRONLY | os.O_APPEND)
    kept.wait_for_count("partial", 1)
    assert kept.client.read_file(b"log") == b"old"
    assert kept.client.read_file(b"log.partial") == b"old and more"


def test_what_has_nothing_to_lose_is_dropped(kept: Served) -> None:
    """Empty, unlinked, given up."""
    with programs(kept.path, 3) as (empty, unlinked, gives_up):
        empty.call("open", b"empty")
        unlinked.call("write", unlinked.call("open", b"unlinked"), b"half")
        unlinked.call("ask", Op.UNLINK, b"unlinked")
        told = gives_up.call("ask", Op.OPEN, b"given-up", flags=CREATE, mode=0o600)
        gives_up.call("ask", Op.ABANDON, objects=[told.attr["object"]])
        for each in (empty, unlinked):
            each.kill()
    kept.wait_for_count("drafts", 0)
    assert kept.client.ask(Op.LIST, b"").text == b""
    assert kept.objects() == []


def test_a_renamed_draft_is_called_after_its_last_name(kept: Served) -> None:
    kept.client.ask(Op.MKDIR, b"step.tmp", mode=0o755)
    with programs(kept.path, 1) as (writer,):
        writer.call("write", writer.call("open", b"step.tmp/state"), b"half")
        kept.client.ask(Op.RENAME, b"step.tmp", other=b"step")
        writer.kill()
    assert not kept.is_there(b"step/state")
    assert kept.client.read_file(b"step/state.partial") == b"half"


def test_who_inherited_it_finishes_it(kept: Served) -> None:
    with programs(kept.path, 1) as (parent,):
        fd = parent.call("open", b"log")
        child: Program = parent.fork()
        child.call("write", fd, b"the child's")
        child.kill()
        parent.call("write", fd, b", the parent's")
        assert parent.call("close", fd) == "SETTLED"
    assert kept.client.read_file(b"log") == b"the child's, the parent's"
    assert not kept.is_there(b"log.partial")


def test_names_that_are_too_long_are_cut() -> None:
    one, two, *_ = partial_names(b"n" * 255)
    assert one == b"n" * 247 + b".partial" and two == b"n" * 245 + b".partial.2"


# A killed daemon leaves its journal.


def test_rescue_of_what_nobody_finished(tmp_path: Path) -> None:
    job, out = tmp_path / "jobs/job", tmp_path / "out"
    (job / "objects").mkdir(parents=True)
    out.mkdir()
    (out / "log.partial").write_text("another job's")
    header = Header("job", os.fsencode(out), (b"",), 0o022, 0)
    journal = Journal(str(job / "outputs.journal"), header)
    for number, text in enumerate(("half", "", "whole", "gone", "moved"), 1):
        make_object(job, number, text)
        journal.draft(number, split(0, b"log%d" % number if number > 1 else b"log"))
    journal.name(3, split(0, b"whole"), 5)
    journal.drop(4)
    journal.draft(5, split(0, b"new/moved"))
    journal.close()
    assert needs_rescue(str(job))
    assert left_behind(str(job)) == (3, 14, str(out))
    done = rescue(str(job))
    assert done is not None and (done.placed, done.kept) == (["whole"], [])
    assert done.partials == ["log.partial.2", "new/moved.partial"]
    assert tree(out) == {
        "log.partial": b"another job's", "log.partial.2": b"half", "whole": b"whole",
        "new": None, "new/moved.partial": b"moved",
    }  # fmt: skip


def test_rescue_while_somebody_writes_on(tmp_path: Path) -> None:
    """An output that was empty has content by the time when the next one has been placed."""
    job, out = tmp_path / "jobs/job", tmp_path / "out"
    (job / "objects").mkdir(parents=True)
    out.mkdir()
    journal = Journal(
        str(job / "outputs.journal"), Header("job", os.fsencode(out), (b"",), 0o022, 0)
    )
    for number, text in ((1, ""), (2, "half")):
        make_object(job, number, text)
        journal.draft(number, split(0, b"log%d" % number))
    journal.close()

    def writes_on() -> bool:
        if (out / "log2.partial").exists():
            make_object(job, 1, "late")
        return False

    done = rescue(str(job), writes_on)
    assert done is not None and (done.partials, done.kept) == (["log2.partial"], [])


# A whole job.


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
    assert "1 published, 1 staged out" in done.stderr
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
        f"until test -e {stage.path}/go; do sleep 0.02; done; echo more >&3; exec 3>&-"
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
    script += "do sleep 0.02; done"
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
    """Their names do not meet."""
    ranks = make_rank_stage(tmp_path, 2)
    half = "exec 3>d/log; echo $FANSTORE_RANK >&3; kill -9 $$"
    script = (
        "cd $FANSTORE_MOUNT_PREFIX; mkdir -p d; "
        "until test $FANSTORE_RANK = 0 || test -e d/log.partial; do sleep 0.05; done; "
        f"sh -c '{half}'; until test -e d/log.partial.2; do sleep 0.05; done"
    )
    out = tmp_path / "out"
    options = ("--output-dir", str(out))
    done = ranks.run_ranks(2, ranks.dataset(), "sh", "-c", script, options=options)
    assert tree(out) == {"d": None, "d/log.partial": b"0\n", "d/log.partial.2": b"1\n"}
    assert f"in {out}, but not finished when its writer was killed: d/log.partial" in done.stderr
    ranks.assert_clean()
