"""Whatever is full, killed or told to end: published outputs are placed, kept or named, and what
was there before is not harmed."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_tools import command_of
from output_steps import Steps, content, until_done
from serving import Stage, children, daemon_of, make_stage, runs, wait_for
from small_disk import small_disk
from soak import sampled

HALF = 600_000  # two of these do not fit a disk of 1 MiB
BOUNDED_S = 15.0


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    stage = make_stage(tmp_path)
    stage.dataset()
    return stage


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The output directory; not there yet."""
    return tmp_path / "output"


@pytest.fixture
def full(output: Path) -> Iterator[Path]:
    """The same, on a disk of 1 MiB on which a few KiB are left."""
    output.mkdir()
    with small_disk(output):
        (output / "filler").write_bytes(bytes(1_000_000))
        yield output


def arguments(stage: Stage, output: Path, *command: str) -> list[str]:
    where = ["--dataset", str(stage.path / "data"), "--mount", str(stage.mount)]
    return ["run", *where, "--output-dir", str(output), "--", *command]


def run_shell(stage: Stage, output: Path, script: str, code: int = 0) -> str:
    """Runs a script in the mount; what FanStore said."""
    script = f"cd {stage.mount} && {script}"
    return stage.call(*arguments(stage, output, "sh", "-c", script), code=code).stderr


def unstaged(stage: Stage, name: str) -> bytes:
    """The content of an output that could not be placed, where that is kept."""
    (path,) = stage.local.glob(f".fanstore-*/unstaged/*/{name}")
    return path.read_bytes()


def hidden(output: Path) -> list[str]:
    """Temporary files that are left in the output directory."""
    return [str(path) for path in output.rglob(".fanstore-*")]


# ---- full disks ----


def test_output_directory_full(stage: Stage, output: Path) -> None:
    """What fits is placed; what does not is kept and named; what was there stays."""
    output.mkdir()
    with small_disk(output):
        (output / "old").write_bytes(b"precious" * 1000)
        script = f"head -c {HALF} /dev/zero >one; head -c {HALF} /dev/urandom >old; echo 3 >three"
        said = run_shell(stage, output, script, code=125)
        assert (output / "one").read_bytes() == bytes(HALF)
        assert (output / "three").read_text() == "3\n"
        there = [path.read_bytes() for path in output.glob("old*")]
        assert there == [b"precious" * 1000]
        assert hidden(output) == []
    assert "old" in said and "unstaged" in said
    assert len(unstaged(stage, "old")) == HALF


def test_code_of_a_failed_command_is_its_own(stage: Stage, full: Path) -> None:
    said = run_shell(stage, full, f"head -c {HALF} /dev/zero >one; exit 7", code=7)
    assert "one" in said and unstaged(stage, "one") == bytes(HALF)


def test_output_directory_full_for_a_while(stage: Stage, full: Path) -> None:
    steps = Steps(stage.path / "steps", "a", "b")
    with stage.running(*arguments(stage, full, *steps.command)) as run:
        steps.do("a", f"write('one', {HALF})")
        (full / "filler").unlink()
        steps.do("b", "write('two', 10)")
        _, said = run.communicate(timeout=60)
        assert run.returncode == 0, said
    assert (full / "one").read_bytes() == content("one", HALF)
    assert (full / "two").read_bytes() == content("two", 10)
    assert stage.leftovers() == []


@pytest.mark.soak
def test_kept_outputs_outlive_the_next_job(stage: Stage, full: Path) -> None:
    run_shell(stage, full, f"head -c {HALF} /dev/zero >one", code=125)
    stage.run(stage.path / "data", "true")
    assert unstaged(stage, "one") == bytes(HALF)


def test_told_to_end_while_outputs_do_not_fit(stage: Stage, full: Path) -> None:
    """A signal gives up the flush at once."""
    steps = Steps(stage.path / "steps", "a")
    with stage.running(*arguments(stage, full, *steps.command)) as run:
        wait_for(lambda: command_of(run.pid), "the command")
        command = command_of(run.pid)
        steps.do("a", f"write('one', {HALF})")
        wait_for(lambda: not runs(command), "the command's end")
        for _ in range(2):
            if run.poll() is None:
                run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=60)
        assert run.returncode not in (0, -signal.SIGTERM), said
    assert "one" in said and unstaged(stage, "one") == content("one", HALF)


def test_local_disk_full(stage: Stage, output: Path) -> None:
    """The program hears of it; what it wrote before is placed, and it may go on."""
    with small_disk(stage.local, "6m"):
        steps = Steps(stage.path / "steps", *"abcde")
        with stage.running(*arguments(stage, output, *steps.command)) as run:
            assert steps.do("a", f"write('one', {HALF})") is None
            assert steps.do("b", "write('two', 8_000_000)") == ["errno", errno.ENOSPC]
            assert steps.do("c", "[finish('two'), remove('two')][0]") is None
            assert steps.do("d", until_done("write('three', 10)")) is None
            assert steps.do("e", "[n for n in names() if not n.startswith('f')]") == [
                "one", "three"
            ]  # fmt: skip
            _, said = run.communicate(timeout=60)
            assert run.returncode == 0, said
    assert (output / "one").read_bytes() == content("one", HALF)
    assert sorted(path.name for path in output.iterdir()) == ["one", "three"]


# ---- the daemon is killed ----


def test_daemon_killed(stage: Stage, output: Path) -> None:
    """Programs go on: their outputs are files of the node. What they have is rescued."""
    steps = Steps(stage.path / "steps", "a", "b", "c", "d", "e", "f")
    with stage.running(*arguments(stage, output, *steps.command)) as run:
        steps.do("a", "write('deep/one', 1000)")
        steps.do("b", "begin('half', 1000)")
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        wait_for(lambda: not daemon_of(run.pid), "the wrapper to notice")
        steps.do("c", "write('two', 10)")
        assert steps.do("d", "read('deep/one')") is not None
        steps.do("e", "finish('half')")
        assert steps.do("f", "names('..') and read('f00')") is not None
        _, said = run.communicate(timeout=60)
        assert run.returncode == 125, said
    assert (output / "deep" / "one").read_bytes() == content("deep/one", 1000)
    assert sorted(path.name for path in output.iterdir()) == ["deep", "half", "two"]
    assert stage.leftovers() == []


def test_daemon_killed_with_outputs_not_placed(stage: Stage, full: Path) -> None:
    """There is room again when the wrapper rescues them."""
    steps = Steps(stage.path / "steps", "a", "b", "c")
    with stage.running(*arguments(stage, full, *steps.command)) as run:
        steps.do("a", f"write('one', {HALF})")
        steps.do("b", "write('deep/two', 300_000)")
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        wait_for(lambda: not daemon_of(run.pid), "the wrapper to notice")
        (full / "filler").unlink()
        steps.do("c", "None")
        _, said = run.communicate(timeout=60)
        assert run.returncode == 125, said
    assert (full / "one").read_bytes() == content("one", HALF)
    assert (full / "deep" / "two").read_bytes() == content("deep/two", 300_000)
    assert hidden(full) == []
    assert stage.leftovers() == []


def test_daemon_killed_and_the_output_directory_stays_full(stage: Stage, full: Path) -> None:
    steps = Steps(stage.path / "steps", "a", "b")
    with stage.running(*arguments(stage, full, *steps.command)) as run:
        steps.do("a", f"write('one', {HALF})")
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        steps.do("b", "None")
        _, said = run.communicate(timeout=60)
        assert run.returncode == 125, said
    assert "one" in said and unstaged(stage, "one") == content("one", HALF)
    assert hidden(full) == []


# ---- the wrapper or the command is killed, or told to end ----


def test_wrapper_killed(stage: Stage, output: Path) -> None:
    """Its command is told to end; its daemon places what was published."""
    steps = Steps(stage.path / "steps", "a", "b", "never")
    with stage.running(*arguments(stage, output, *steps.command)) as run:
        steps.do("a", "write('one', 1000)")
        steps.do("b", "begin('half', 1000)")
        mine = [run.pid, *children(run.pid)]
        run.kill()
        run.wait()
        wait_for(lambda: not any(runs(pid) for pid in mine), "daemon and command to end")
    assert (output / "one").read_bytes() == content("one", 1000)
    assert not (output / "half").exists()
    assert stage.leftovers() == []


@pytest.mark.parametrize("room", sampled([True, False], [False]))
def test_wrapper_and_daemon_killed_the_next_start_rescues(
    stage: Stage, full: Path, room: bool
) -> None:
    steps = Steps(stage.path / "steps", "a", "never")
    with stage.running(*arguments(stage, full, *steps.command)) as run:
        steps.do("a", f"write('one', {HALF})")
        command, daemon = command_of(run.pid), daemon_of(run.pid)
        os.kill(daemon, signal.SIGKILL)
        run.kill()
        run.wait()
        wait_for(lambda: not runs(command), "the command's end")
    if room:
        (full / "filler").unlink()
    said = stage.run(stage.path / "data", "true").stderr
    if room:
        assert (full / "one").read_bytes() == content("one", HALF)
        assert stage.leftovers() == []
    else:
        assert "one" in said and unstaged(stage, "one") == content("one", HALF)
    assert hidden(full) == []


@pytest.mark.parametrize("name", sampled(["SIGTERM", "SIGINT", "SIGKILL"], ["SIGTERM", "SIGKILL"]))
def test_command_ended_in_the_middle(stage: Stage, output: Path, name: str) -> None:
    """What was finished is placed; a file that was being written is called what it is."""
    number = getattr(signal, name)
    steps = Steps(stage.path / "steps", "z", "a", "b", "never")
    with stage.running(*arguments(stage, output, *steps.command)) as run:
        steps.do("z", "signal.signal(signal.SIGINT, signal.SIG_DFL) and None")
        steps.do("a", "write('one', 1000)")
        steps.do("b", "begin('half', 1000)")
        if number == signal.SIGKILL:
            os.kill(command_of(run.pid), number)
        else:
            run.send_signal(number)
        _, said = run.communicate(timeout=60)
        assert run.returncode == 128 + number, said
    assert (output / "one").read_bytes() == content("one", 1000)
    assert sorted(path.name for path in output.iterdir()) == ["half.partial", "one"]
    assert stage.leftovers() == []


# ---- one output directory for several jobs ----


@pytest.mark.soak
def test_run_again(stage: Stage, output: Path) -> None:
    """Earlier jobs' outputs keep their content, under names with a number."""
    for number in range(3):
        said = run_shell(stage, output, f"mkdir -p d; echo run {number} >d/log; echo {number} >log")
        assert ("~" in said) == (number > 0), said
    for directory in (output, output / "d"):
        found = {path.name: path.read_text()[-2:] for path in directory.glob("log*")}
        assert found == {"log": "2\n", "log.~1~": "0\n", "log.~2~": "1\n"}
    assert hidden(output) == []


def test_rewritten_in_one_job_leaves_no_backups(stage: Stage, output: Path) -> None:
    script = "for n in 1 2 3; do echo $n >log; sleep 0.3; done; echo 4 >x; mv x log; rm -f y; :>y"
    run_shell(stage, output, script)
    assert sorted(path.name for path in output.iterdir()) == ["log", "y"]
    assert (output / "log").read_text() == "4\n"


def test_two_jobs_at_the_same_time(stage: Stage, output: Path) -> None:
    """Each job's outputs are all there."""
    names = [f"job{number}" for number in range(2)]
    stages = []
    for name in names:
        (stage.path / name).mkdir()
        stages.append(make_stage(stage.path / name))
    both = [Steps(stage.path / f"steps-{name}", "a", "b") for name in names]
    said = []
    data = str(stage.path / "data")

    def started(other: Stage, steps: Steps) -> list[str]:
        where = ["--dataset", data, "--mount", str(other.mount), "--output-dir", str(output)]
        return ["run", *where, "--", *steps.command]

    with (
        stages[0].running(*started(stages[0], both[0])) as one,
        stages[1].running(*started(stages[1], both[1])) as two,
    ):
        for steps, name in zip(both, names, strict=True):
            steps.tell("a", f"[write('own/{name}.%d' % n, 5000) for n in range(20)] and None")
        for steps, size in zip(both, (1000, 2000), strict=True):
            assert steps.answer("a") is None
            steps.tell("b", f"write('common', {size})")
        for run in (one, two):
            said.append(run.communicate(timeout=60)[1])
            assert run.returncode == 0, said
    for name in names:
        for n in range(20):
            path = f"own/{name}.{n}"
            assert (output / path).read_bytes() == content(path, 5000)
    found = sorted(path.read_bytes() for path in output.glob("common*"))
    assert found == sorted([content("common", 1000), content("common", 2000)])
    assert hidden(output) == []
    assert all(each.leftovers() == [] for each in stages)
