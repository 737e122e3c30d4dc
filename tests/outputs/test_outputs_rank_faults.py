"""Ranks are lost with outputs: the others go on, and what is lost is named."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_tools import RankRun, Ranks, make_ranks
from mpiexec import needs_ranks
from output_steps import Steps, content, digest, until_done
from serving import runs, wait_for
from small_disk import small_disk
from soak import sampled

from fanstore.outputs.model.entries import keeper_of

pytestmark = needs_ranks

SIZE = 3
LOST = 2
BOUNDED_S = 20.0
ALL = ("command", "wrapper", "daemon")

# A directory that each rank makes: it keeps the names in it. Whoever keeps the directories' own
# names, those of the root, is not lost.
HOME = {rank: f"d{rank}" for rank in range(SIZE)}
assert keeper_of(0, b"", SIZE) != LOST


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return make_ranks(tmp_path, {"input": b"an input"})


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The output directory; not there yet."""
    return tmp_path / "output"


@pytest.fixture
def full(output: Path) -> Iterator[Path]:
    """The same, on a disk of 2 MiB on which next to nothing is left."""
    output.mkdir()
    with small_disk(output, "2m"):
        (output / "filler").write_bytes(bytes((2 << 20) - 8192))
        yield output


def told(ranks: Ranks, *steps: str) -> Steps:
    return Steps(ranks.stage.path / "steps", *steps)


def in_output(output: Path) -> dict[str, bytes]:
    """What is in the output directory, but for the filler; while the job gives names, too."""
    found = {}
    for folder, _, names in os.walk(output):
        for path in (Path(folder, name) for name in names if name != "filler"):
            with contextlib.suppress(FileNotFoundError):
                found[str(path.relative_to(output))] = path.read_bytes()
    return found


def own_files(of: range, directory: str) -> dict[str, bytes]:
    """What each rank of a test has written there."""
    names = [f"{directory}/of{rank}" for rank in of]
    return {name: content(name, 100_000) for name in names}


def write_everywhere(steps: Steps, step: str) -> None:
    """Each rank makes its directory, and then writes a file into that of each rank."""
    homes = list(HOME.values())
    made = f"all(os.path.isdir(root + '/' + d) for d in {homes})"
    wait = f"[time.sleep(0.01) for _ in iter(lambda: {made}, True)]"
    texts = {
        rank: f"[os.mkdir(root + '/{HOME[rank]}'), {wait}, "
        f"[write(d + '/of{rank}', 100_000) for d in {homes}]] and None"
        for rank in range(SIZE)
    }
    steps.tell(step, texts)
    assert [steps.answer(step, rank) for rank in range(SIZE)] == [None] * SIZE


def left(rank: int) -> list[int]:
    return [other for other in range(SIZE) if other != rank]


def kill_and_wait(run: RankRun, rank: int) -> None:
    pids = [run.daemon(rank), run.wrapper(rank), run.command(rank)]
    run.kill(rank, *ALL)
    wait_for(lambda: not any(runs(pid) for pid in pids), "the end of a rank")


@pytest.mark.parametrize("lost", sampled(range(SIZE), [1]))
def test_rank_lost_with_outputs_not_placed(ranks: Ranks, full: Path, lost: int) -> None:
    """The others' are placed when there is room, and the lost ones named."""
    steps = told(ranks, "a", "b", "c")
    options = ("--output-dir", str(full))
    with ranks.running(SIZE, steps.command, *options) as run:
        write_everywhere(steps, "a")
        kill_and_wait(run, lost)
        (full / "filler").unlink()
        steps.tell("b", f"read('{HOME[left(lost)[0]]}/of{left(lost)[1]}')")
        name = f"{HOME[left(lost)[0]]}/of{left(lost)[1]}"
        for rank in left(lost):
            assert steps.answer("b", rank) == digest(name, 100_000)
            assert steps.took_s("b", rank) < BOUNDED_S
        steps.tell("c", "None")
        codes = run.end()
        said = "".join(run.err(rank) for rank in left(lost))
    there = in_output(full)
    for directory in HOME.values():
        for name, whole in own_files(range(SIZE), directory).items():
            if name.endswith(f"of{lost}"):
                assert name not in there, name
                assert name in said or directory == HOME[lost], f"{name}: {said}"
            else:
                assert there.get(name) == whole, f"{name}: {said}"
    assert 125 in [codes[rank] for rank in left(lost)], said
    run.check_nothing_left(killed=(lost,))


@pytest.mark.soak
def test_rank_lost_after_its_outputs_were_placed(ranks: Ranks, output: Path) -> None:
    """They are read from the output directory, and nothing is lost."""
    steps = told(ranks, "a", "b", "c")
    options = ("--output-dir", str(output))
    names = [f"{HOME[rank]}/of{LOST}" for rank in left(LOST)]
    with ranks.running(SIZE, steps.command, *options) as run:
        write_everywhere(steps, "a")
        everything = {n for d in HOME.values() for n in own_files(range(SIZE), d)}
        wait_for(lambda: in_output(output).keys() == everything, "stage-out")
        kill_and_wait(run, LOST)
        steps.tell("b", f"[read(name) for name in {names}]")
        for rank in left(LOST):
            assert steps.answer("b", rank) == [digest(name, 100_000) for name in names]
            assert steps.took_s("b", rank) < 2 * BOUNDED_S
        steps.tell("c", f"write('{HOME[0]}/more%s' % rank, 10)")
        codes = run.end()
    assert [codes[rank] for rank in left(LOST)] == [0, 0], run.said()
    there = in_output(output)
    for directory in HOME.values():
        for name, whole in own_files(range(SIZE), directory).items():
            assert there.get(name) == whole, name
    assert there[f"{HOME[0]}/more0"] == content(f"{HOME[0]}/more0", 10)
    run.check_nothing_left(killed=(LOST,))


def test_bytes_of_a_lost_rank_that_are_nowhere_else(ranks: Ranks, full: Path) -> None:
    """EIO for those, soon; names whose home was lost, too; all else goes on."""
    steps = told(ranks, "a", "b", "c", "d", "e")
    with ranks.running(SIZE, steps.command, "--output-dir", str(full)) as run:
        write_everywhere(steps, "a")
        kill_and_wait(run, LOST)
        gone = [f"read('{HOME[0]}/of{LOST}')", f"write('{HOME[LOST]}/new', 10)"]
        for step, text in zip("bc", gone, strict=True):
            steps.tell(step, {rank: text for rank in left(LOST)})
            for rank in left(LOST):
                assert steps.answer(step, rank) == ["errno", errno.EIO]
                assert steps.took_s(step, rank) < BOUNDED_S
        steps.tell("d", f"write('{HOME[1]}/new%s' % rank, 10)")
        assert [steps.answer("d", rank) for rank in left(LOST)] == [None, None]
        steps.tell("e", f"read('{HOME[1]}/new0')")
        assert steps.answer("e", 1) == digest(f"{HOME[1]}/new0", 10)
        (full / "filler").unlink()
        run.end()
    assert f"{HOME[1]}/new0" in in_output(full)
    run.check_nothing_left(killed=(LOST,))


@pytest.mark.soak
def test_daemon_of_a_rank_killed(ranks: Ranks, full: Path) -> None:
    """Its wrapper rescues what it published; the others go on."""
    steps = told(ranks, "a", "b", "c")
    with ranks.running(SIZE, steps.command, "--output-dir", str(full)) as run:
        write_everywhere(steps, "a")
        daemon = run.daemon(LOST)
        run.kill(LOST, "daemon")
        wait_for(lambda: not runs(daemon), "the daemon's end")
        (full / "filler").unlink()
        steps.tell("b", f"write('{HOME[0]}/new%s' % rank, 10)")
        assert steps.answer("b", LOST) == ["errno", errno.EIO]
        assert [steps.answer("b", rank) for rank in left(LOST)] == [None, None]
        steps.tell("c", "None")
        codes = run.end()
    assert codes[LOST] == 125
    there = in_output(full)
    for directory in HOME.values():
        for name, whole in own_files(range(SIZE), directory).items():
            assert there.get(name) == whole, f"{name}: {run.said()}"
    run.check_nothing_left()


@pytest.mark.soak
def test_wrapper_of_a_rank_killed(ranks: Ranks, output: Path) -> None:
    """Its command is told to end, what it published is placed."""
    steps = told(ranks, "a", "b")
    with ranks.running(SIZE, steps.command, "--output-dir", str(output)) as run:
        write_everywhere(steps, "a")
        run.kill(LOST, "wrapper")
        steps.tell("b", {rank: f"write('{HOME[0]}/new%s' % rank, 10)" for rank in left(LOST)})
        assert [steps.answer("b", rank) for rank in left(LOST)] == [None, None]
        codes = run.end()
        assert [codes[rank] for rank in left(LOST)] == [0, 0], run.said()
    run.check_nothing_left()
    there = in_output(output)
    for directory in HOME.values():
        for name, whole in own_files(range(SIZE), directory).items():
            assert there.get(name) == whole, f"{name}: {run.said()}"


def test_writer_killed_while_another_rank_waits_for_its_file(ranks: Ranks, output: Path) -> None:
    """Others may write it anew."""
    steps = told(ranks, "m", "a", "b", "c", "d", "e")
    name = f"{HOME[1]}/contested"
    with ranks.running(SIZE, steps.command, "--output-dir", str(output)) as run:
        steps.do("m", f"os.mkdir(root + '/{HOME[1]}')", rank=1)
        steps.do("a", f"begin('{name}', 1000)", rank=2)
        assert steps.do("b", f"write('{name}', 2000)") == ["errno", errno.ETXTBSY]
        assert steps.do("c", f"read('{name}')") == ["errno", errno.ENOENT]
        command = run.command(2)
        os.kill(command, signal.SIGKILL)
        wait_for(lambda: not runs(command), "the command's end")
        steps.tell("d", {0: until_done(f"write('{name}', 2000)")})
        assert steps.answer("d") is None
        steps.tell("e", {rank: f"read('{name}')" for rank in left(2)})
        assert [steps.answer("e", rank) for rank in left(2)] == [digest(name, 2000)] * 2
        run.end()
    found = in_output(output)
    found.pop(f"{name}.partial", None)  # placed before it was written anew
    assert found == {name: content(name, 2000)}
    run.check_nothing_left()


@pytest.mark.soak
def test_rank_stopped_for_a_while(ranks: Ranks, output: Path) -> None:
    """It goes on afterwards, or ends: nobody hangs, and whatever is placed is whole."""
    steps = told(ranks, "a", "b", "c")
    with ranks.running(SIZE, steps.command, "--output-dir", str(output)) as run:
        write_everywhere(steps, "a")
        run.kill(LOST, "daemon", number=signal.SIGSTOP)
        steps.tell("b", {rank: f"write('{HOME[LOST]}/new%s' % rank, 10)" for rank in left(LOST)})
        for rank in left(LOST):
            assert steps.answer("b", rank) in (None, ["errno", errno.EIO])
            assert steps.took_s("b", rank) < BOUNDED_S
        run.kill(LOST, "daemon", number=signal.SIGCONT)
        steps.tell("c", "None")
        run.end()
    there = in_output(output)
    for directory in HOME.values():
        for name, whole in own_files(range(SIZE), directory).items():
            assert there.get(name) == whole or name in run.said(), f"{name}: {run.said()}"
    run.check_nothing_left()
