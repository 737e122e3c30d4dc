"""How a job ends that has written something: all of it is in the output directory, or named."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from mpiexec import RANK, needs_ranks
from ranks import make_rank_stage
from serving import LIMIT_S, Stage, children, command_of, daemon_of, make_stage, runs, wait_for
from small_disk import small_disk
from soak import sampled


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.fixture
def dataset(stage: Stage) -> Path:
    return stage.dataset(stage.source(files={"input": b"input", "d/inside": b"inside"}))


@pytest.fixture
def out(stage: Stage) -> Path:
    return stage.path / "out"


@pytest.fixture
def full(out: Path) -> Iterator[Path]:
    """An output directory with room for small files only, until `room` is removed."""
    out.mkdir()
    with small_disk(out):
        (out / "room").write_bytes(bytes(900_000))
        yield out


LARGE = 500_000
PATIENT = {"FANSTORE_OUTPUT_WAIT_S": str(LIMIT_S)}  # outputs are tried until the test is over


def write(stage: Stage, *sizes: int) -> list[str]:
    """A command that writes files of these sizes, f0, f1 ..."""
    script = "; ".join(f"head -c {n} /dev/zero >{stage.mount}/f{i}" for i, n in enumerate(sizes))
    return ["sh", "-c", script or "true"]


def options(out: Path) -> tuple[str, ...]:
    return ("--output-dir", str(out))


def arguments(stage: Stage, dataset: Path, out: Path, command: list[str]) -> list[str]:
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), *options(out)]
    return ["run", *where, "--", *command]


def only_unstaged(stage: Stage) -> dict[str, int]:
    """All that is left in the local directory: what could not be placed, with its sizes."""
    found = {}
    for path in stage.local.rglob("*"):
        if path.is_file() and path.name != "lock":
            assert "unstaged" in path.parts, path
            found[path.name] = path.stat().st_size
    return found


def next_text(process: subprocess.Popen[str], text: str) -> str:
    """Reads stderr until a line has `text`; all that was read."""
    assert process.stderr is not None
    fd, read = process.stderr.fileno(), ""
    deadline_s = time.monotonic() + LIMIT_S
    while text not in read:
        assert time.monotonic() < deadline_s, read
        if select.select([fd], [], [], 0.1)[0]:
            data = os.read(fd, 65536).decode()
            assert data, f"ended: {read}"
            read += data
    return read


def test_all_is_there_when_the_job_ends(stage: Stage, dataset: Path, out: Path) -> None:
    script = (
        f"cd {stage.mount}; mkdir new new/deep; echo 1 >new/deep/file; echo 2 >d/beside; "
        "ln -s deep/file new/link; echo 3 >gone; rm gone; echo 4 >tmp; mv tmp final; "
        "dd if=/dev/zero of=zeros bs=1M count=30 2>/dev/null; umask 077; echo 5 >closed"
    )
    done = stage.run(dataset, "sh", "-c", script, options=options(out))
    found = {str(p.relative_to(out)) for p in out.rglob("*")}
    assert found == {
        "new", "new/deep", "new/deep/file", "new/link", "d", "d/beside", "final", "zeros", "closed"
    }  # fmt: skip
    assert (out / "new/link").read_text() == "1\n"
    assert (out / "final").read_text() == "4\n"
    assert (out / "zeros").stat().st_size == 30 << 20
    assert (out / "closed").stat().st_mode & 0o777 == 0o600
    assert f" files in {out} (" in done.stderr
    assert stage.leftovers() == []


def test_the_numbers_of_the_end_add_up(stage: Stage, dataset: Path, full: Path) -> None:
    """What was renamed is one output, what was replaced or removed is none any more, wherever it
    had come to."""
    script = (
        f"cd {stage.mount}; echo 1 >a; mv a b; for n in 1 2 3; do echo $n >c; done; "
        f"echo 55 >e.tmp; mv e.tmp e; echo 6 >f.tmp; mv f.tmp e; "
        f"head -c {LARGE} /dev/zero >g"
    )
    done = stage.run(dataset, "sh", "-c", script, options=options(full), code=125)
    assert sorted(os.listdir(full)) == ["b", "c", "e", "room"]
    assert f": outputs: 3 files in {full} (6 bytes), 1 not placed\n" in done.stderr


def test_the_default_is_beside_the_job_and_made_with_the_first_output(
    stage: Stage, dataset: Path
) -> None:
    cwd = stage.path / "cwd"
    cwd.mkdir()
    for command, made in ((["cat", f"{stage.mount}/input"], []), (write(stage, 5), ["f0"])):
        where = ["--dataset", str(dataset), "--mount", str(stage.mount)]
        argv = [sys.executable, "-m", "fanstore", "run", *where, "--", *command]
        done = subprocess.run(
            argv, env=stage.env, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stderr
        assert [p.name for p in cwd.rglob("*") if p.is_file()] == made
        assert [p.name for p in cwd.iterdir()] == (["fanstore-output"] if made else [])
        assert ("outputs:" in done.stderr) == bool(made)


@pytest.mark.soak
def test_two_mounts_have_a_directory_each(stage: Stage, dataset: Path, out: Path) -> None:
    prefixes = [str(stage.path / "a/set"), str(stage.path / "b/set")]
    where = [word for p in prefixes for word in ("--dataset", str(dataset), "--mount", p)]
    script = "; ".join(f"echo {n} >{p}/file" for n, p in enumerate(prefixes))
    stage.call("run", *where, *options(out), "--", "sh", "-c", script)
    assert (out / "set/file").read_text() == "0\n"
    assert (out / "set-2/file").read_text() == "1\n"


@pytest.mark.parametrize("code", sampled([0, 3], [3]))
def test_what_finds_no_room_is_named_and_kept(
    stage: Stage, dataset: Path, full: Path, code: int
) -> None:
    script = f"{write(stage, LARGE, 10)[2]}; exit {code}"
    done = stage.run(dataset, "sh", "-c", script, options=options(full), code=code or 125)
    assert f"not in {full}: f0: No space left on device" in done.stderr
    assert "kept on this node instead" in done.stderr
    assert only_unstaged(stage) == {"f0": LARGE}
    assert sorted(os.listdir(full)) == ["f1", "room"]
    stage.run(dataset, "true", options=options(full))
    assert only_unstaged(stage) == {"f0": LARGE}


def test_what_was_there_is_kept_and_named(stage: Stage, dataset: Path, out: Path) -> None:
    for turn in range(3):
        done = stage.run(dataset, *write(stage, turn + 1), options=options(out))
    assert {p.name: p.stat().st_size for p in out.iterdir()} == {"f0": 3, "f0.~1~": 1, "f0.~2~": 2}
    assert f"an older file of the same name was in {out}, and is now called: f0.~2~" in done.stderr


def test_what_is_there_and_not_seen_is_said_at_the_start(
    stage: Stage, dataset: Path, out: Path
) -> None:
    unseen = f"this job does not see the files that are in {out} already; with --continue it does"
    for more, told in (((), False), ((), True), (("--continue",), False)):
        done = stage.run(dataset, *write(stage, 1), options=(*options(out), *more))
        assert (unseen in done.stderr) == told


@pytest.mark.soak
def test_refused_writes_are_told_at_the_end(stage: Stage, dataset: Path, out: Path) -> None:
    """A call that fails in any directory is not counted: mkdir of a name that exists, unlink of one
    that does not."""
    cases = {
        "": "mkdir -p d; mkdir d; rm -f none; rm none",
        "input": "echo >input; rm -f d/inside",
        "d/inside": "echo >new; mv -f new d/inside; ulimit -f 0; rm input",
    }
    for first, script in cases.items():
        done = stage.run(
            dataset, "sh", "-c", f"cd {stage.mount}; {script}; true", options=options(out)
        )
        said = "2 attempts to change files of the dataset failed, for example of "
        assert (f"{said}{stage.mount}/{first}: " in done.stderr) == bool(first)
        assert ("attempt" in done.stderr) == bool(first)


@pytest.mark.soak
def test_two_jobs_with_one_output_directory(stage: Stage, dataset: Path, out: Path) -> None:
    processes = []
    for number in range(2):
        mount = stage.path / f"mount{number}"
        script = f"for i in $(seq 20); do echo {number} $i >{mount}/same; done"
        where = ["--dataset", str(dataset), "--mount", str(mount), *options(out)]
        argv = [sys.executable, "-m", "fanstore", "run", *where, "--", "sh", "-c", script]
        processes.append(subprocess.Popen(argv, env=stage.env, stderr=subprocess.PIPE))
    for process in processes:
        _, stderr = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, stderr
    found = {path.read_text() for path in out.iterdir()}
    assert {"0 20\n", "1 20\n"} <= found


def test_signals_while_outputs_are_waited_for(stage: Stage, dataset: Path, full: Path) -> None:
    with stage.running(*arguments(stage, dataset, full, write(stage, LARGE)), **PATIENT) as run:
        said = next_text(run, "waiting for 1 output")
        assert f"to reach {full}" in said
        run.send_signal(signal.SIGINT)
        next_text(run, "interrupt again to stop waiting")
        run.send_signal(signal.SIGTERM)
        _, stderr = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 125
    assert f"not in {full}: f0:" in stderr
    assert only_unstaged(stage) == {"f0": LARGE}
    assert os.listdir(full) == ["room"]


@pytest.mark.soak
def test_one_signal_is_outlived(stage: Stage, dataset: Path, full: Path) -> None:
    with stage.running(*arguments(stage, dataset, full, write(stage, LARGE)), **PATIENT) as run:
        next_text(run, "waiting for 1 output")
        run.send_signal(signal.SIGTERM)
        next_text(run, "interrupt again to stop waiting")
        (full / "room").unlink()
        run.communicate(timeout=LIMIT_S)
    assert run.returncode == 0
    assert os.listdir(full) == ["f0"]
    assert stage.leftovers() == []


def test_a_signal_to_every_process_as_slurm_sends_it(
    stage: Stage, dataset: Path, full: Path
) -> None:
    """The command saves its state, and that is staged out, also when the daemon was told, too."""
    ready = stage.path / "ready"
    save = f'trap "" TERM; head -c {LARGE} /dev/zero >{stage.mount}/f0; exit 5'
    script = f"trap '{save}' TERM; touch {ready}; while :; do sleep 0.1; done"
    command = ["sh", "-c", script]
    with stage.running(*arguments(stage, dataset, full, command), **PATIENT) as run:
        wait_for(ready.exists, "the command")
        for pid in (daemon_of(run.pid), command_of(run.pid), run.pid):
            os.kill(pid, signal.SIGTERM)
        next_text(run, "waiting for 1 output")
        os.kill(daemon_of(run.pid), signal.SIGTERM)
        (full / "room").unlink()
        run.communicate(timeout=LIMIT_S)
    assert run.returncode == 5
    assert os.listdir(full) == ["f0"]
    assert stage.leftovers() == []


def test_a_command_that_is_told_to_end_leaves_what_it_published(
    stage: Stage, dataset: Path, out: Path
) -> None:
    script = f"{write(stage, 10)[2]}; exec 3>{stage.mount}/unfinished; echo half >&3; kill -9 $$"
    stage.run(dataset, "sh", "-c", script, options=options(out), code=137)
    assert sorted(os.listdir(out)) == ["f0", "unfinished.partial"]


def test_killed_daemon(stage: Stage, dataset: Path, full: Path) -> None:
    script = f"{write(stage, LARGE, 10)[2]}; until test -e {stage.path}/go; do sleep 0.1; done"
    with stage.running(*arguments(stage, dataset, full, ["sh", "-c", script])) as run:
        wait_for(lambda: command_of(run.pid), "the command")
        wait_for(lambda: waiting(stage) == 2, "outputs that find no room")
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        wait_for(lambda: not daemon_of(run.pid), "the wrapper to notice")
        (full / "room").unlink()
        (stage.path / "go").touch()
        _, stderr = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 125
    assert "2 outputs of it are in" in stderr
    assert {p.name: p.stat().st_size for p in full.iterdir()} == {"f0": LARGE, "f1": 10}
    assert stage.leftovers() == []


def waiting(stage: Stage) -> int:
    """Outputs that wait, as the only job's status says."""
    done = subprocess.run(
        [sys.executable, "-m", "fanstore", "status", "--json"],
        env=stage.env, capture_output=True, timeout=LIMIT_S,
    )  # fmt: skip
    outputs = json.loads(done.stdout or "{}").get("outputs", {})
    return int(outputs.get("waiting", 0)) if outputs.get("published") == 2 else 0


def kill_all(stage: Stage, run: subprocess.Popen[str]) -> None:
    """The wrapper and its daemon, and the command that they leave behind."""
    everything = [run.pid, *children(run.pid)]
    for pid in everything:
        os.kill(pid, signal.SIGSTOP)
    for pid in everything:
        os.kill(pid, signal.SIGKILL)
    run.wait()
    wait_for(lambda: not any(runs(pid) for pid in everything), "their end")


@pytest.mark.parametrize("there_is_room", sampled([True, False], [False]))
def test_killed_daemon_and_wrapper(
    stage: Stage, dataset: Path, full: Path, there_is_room: bool
) -> None:
    script = f"{write(stage, LARGE, 10)[2]}; sleep 60"
    with stage.running(*arguments(stage, dataset, full, ["sh", "-c", script])) as run:
        wait_for(lambda: command_of(run.pid), "the command")
        wait_for(lambda: waiting(stage) == 2, "outputs that find no room")
        kill_all(stage, run)
    status = stage.call("status", code=1).stdout
    assert "2 waiting (500,010 bytes)" in status
    if there_is_room:
        (full / "room").unlink()
    done = stage.run(dataset, "true", options=options(stage.path / "elsewhere"))
    if there_is_room:
        assert f"2 outputs of it are in {full} now" in done.stderr
        assert sorted(os.listdir(full)) == ["f0", "f1"]
        assert stage.leftovers() == []
    else:
        assert f"not in {full}: f0: No space left on device" in done.stderr
        assert sorted(os.listdir(full)) == ["f1", "room"]
        assert only_unstaged(stage) == {"f0": LARGE}
    assert not (stage.path / "elsewhere").exists()


def start(stage: Stage, dataset: Path, out: Path, **env: str) -> None:
    where = ["--dataset", str(dataset), "--mount", str(stage.mount), *options(out)]
    stage.call("start", *where, **env)


@pytest.mark.soak
def test_stop_waits_for_the_outputs(stage: Stage, dataset: Path, full: Path) -> None:
    start(stage, dataset, full, **PATIENT)
    stage.call("exec", "--", *write(stage, LARGE, 10))
    assert "0 staged out (0 bytes), 0 being written" in stage.call("status").stdout
    with stage.running("stop") as stop:
        next_text(stop, "waiting for ")
        (full / "room").unlink()
        _, stderr = stop.communicate(timeout=LIMIT_S)
    assert stop.returncode == 0, stderr
    assert sorted(os.listdir(full)) == ["f0", "f1"]
    assert stage.leftovers() == []


@pytest.mark.parametrize("flush", sampled([(), ("--no-flush",)], [()]))
def test_stop_names_what_is_not_there(
    stage: Stage, dataset: Path, full: Path, flush: tuple[str, ...]
) -> None:
    start(stage, dataset, full)
    stage.call("exec", "--", *write(stage, LARGE))
    wait_for(lambda: "No space left" in stage.call("status").stdout, "a first attempt")
    done = stage.call("stop", *flush, code=125)
    assert f"not in {full}: f0: No space left on device" in done.stderr
    assert only_unstaged(stage) == {"f0": LARGE}


@pytest.mark.soak
def test_stop_of_a_dead_job_saves_its_outputs(stage: Stage, dataset: Path, full: Path) -> None:
    start(stage, dataset, full)
    stage.call("exec", "--", *write(stage, LARGE))
    daemon = int(json.loads(stage.call("status", "--json").stdout)["daemon_pid"])
    os.kill(daemon, signal.SIGKILL)
    wait_for(lambda: not runs(daemon), "its end")
    (full / "room").unlink()
    done = stage.call("stop")
    assert f"1 outputs of it are in {full} now" in done.stderr
    assert os.listdir(full) == ["f0"]
    assert stage.leftovers() == []


def test_quiet(stage: Stage, dataset: Path, out: Path) -> None:
    done = stage.run(dataset, *write(stage, 5), options=(*options(out), "--quiet"))
    assert done.stderr == ""


@needs_ranks
def test_one_line_for_all_ranks(tmp_path: Path) -> None:
    ranks = make_rank_stage(tmp_path, 3)
    dataset, out = ranks.dataset(), tmp_path / "out"
    script = (
        "cd $FANSTORE_MOUNT_PREFIX; mkdir -p all; echo $FANSTORE_RANK >all/$FANSTORE_RANK; "
        "until test $(ls all | wc -l) = 3; do sleep 0.05; done; cat all/*"
    )
    done = ranks.run_ranks(3, dataset, "sh", "-c", script, options=options(out))
    assert sorted(done.stdout.split()) == sorted("012" * 3)
    assert {p.name: p.read_text() for p in (out / "all").iterdir()} == {
        "0": "0\n", "1": "1\n", "2": "2\n"
    }  # fmt: skip
    assert done.stderr.count("outputs:") == 1
    assert f"outputs: 3 files in {out} (6 bytes)\n" in done.stderr
    ranks.assert_clean()


@needs_ranks
def test_ranks_with_different_output_directories_are_refused(tmp_path: Path) -> None:
    ranks = make_rank_stage(tmp_path, 2)
    script = f'exec fanstore run --output-dir {tmp_path}/out{RANK} "$@"'
    where = [*ranks.where(ranks.dataset()), "--", "true"]
    program = script.replace("fanstore", f"{shlex.quote(sys.executable)} -m fanstore", 1)
    done = ranks.finished(ranks.mpiexec(2, "sh", "-c", program, "sh", *where), code=None)
    assert done.returncode != 0
    assert f"--output-dir is {tmp_path}/out1 on rank 1 and {tmp_path}/out0 on rank 0" in done.stderr
    ranks.assert_clean()
