"""What FanStore says when something ends it, or is other than users think."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import LIMIT_S, Stage, daemon_of, make_stage, wait_for

from fanstore.launch.mpi_hint import mpi_hint
from fanstore.launcher import ALONE, Launcher
from fanstore.staging import memory

# As if the kernel had killed one more process each time that is looked at.
SHORT_OF_MEMORY = """
import itertools, sys
from fanstore.staging import memory
memory.kill_count = itertools.count().__next__
from fanstore.cli import main
main(sys.argv[1:])
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


def locked(path: Path, kind: int) -> int:
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, kind)
    return fd


def holds(pid: int, path: Path) -> bool:
    with contextlib.suppress(OSError):
        links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        return str(path) in links
    return False


@contextlib.contextmanager
def staging(stage: Stage, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`fanstore run` whose daemon has one of two packs, and waits for the other for ever."""
    dataset = stage.dataset()
    stage.run(dataset, "true", options=("--keep-staged",))
    (copy,) = stage.local.glob(".fanstore-*/datasets/*")
    (copy / "pack-00001.fsp.ok").unlink()
    other_job = locked(copy / "lock", fcntl.LOCK_SH)
    copier = locked(copy / "pack-00001.fsp.lock", fcntl.LOCK_EX)
    argv = [*words, "--dataset", str(dataset), "--mount", str(stage.mount), "--", "sleep", "60"]
    with subprocess.Popen(argv, env=stage.env, stderr=subprocess.PIPE, text=True) as run:
        try:
            wait_for(lambda: holds(daemon_of(run.pid), copy / "lock"), "staging")
            os.close(other_job)
            yield run
        finally:
            os.close(copier)
            if run.poll() is None:
                run.kill()


FANSTORE = (sys.executable, "-m", "fanstore", "run")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_told_to_end_while_staging_nothing_is_kept(stage: Stage, number: signal.Signals) -> None:
    with staging(stage, *FANSTORE) as run:
        run.send_signal(number)
        _, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 128 + number
    assert "told to end before the command started; nothing was kept" in err
    assert stage.leftovers() == []


def test_told_to_end_while_staging_what_is_kept_is_said(stage: Stage) -> None:
    with staging(stage, *FANSTORE, "--keep-staged") as run:
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 130
    assert "told to end before the command started; 1 whole pack is kept in " in err
    assert "`fanstore clean` removes them" in err


@pytest.mark.parametrize(("words", "said"), [
    (FANSTORE, "the node daemon died while it staged; nothing was left behind"),
    ((sys.executable, "-c", SHORT_OF_MEMORY, "run"),
     "the node daemon died while it staged: the memory limit of the job (its control group) was "
     "reached; give the job more memory"),
])  # fmt: skip
def test_a_daemon_killed_while_staging(stage: Stage, words: tuple[str, ...], said: str) -> None:
    with staging(stage, *words) as run:
        os.kill(daemon_of(run.pid), signal.SIGKILL)
        _, err = run.communicate(timeout=LIMIT_S)
    assert run.returncode == 125
    assert said in err


def test_a_command_killed_for_memory(stage: Stage) -> None:
    where = ["--dataset", str(stage.dataset()), "--mount", str(stage.mount), "--", "sh", "-c"]
    argv = [sys.executable, "-c", SHORT_OF_MEMORY, "run", *where, "kill -9 $$"]
    done = subprocess.run(argv, env=stage.env, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 137
    assert "the command was killed: the memory limit of the job" in done.stderr


@pytest.mark.parametrize(("line", "name"), [
    ("0::/user/job", "user/job/memory.events"),
    ("5:cpu,memory:/job", "memory/job/memory.oom_control"),
])  # fmt: skip
def test_kills_are_counted_in_our_own_group(tmp_path: Path, line: str, name: str) -> None:
    membership = tmp_path / "cgroup"
    membership.write_text(f"1:name=systemd:/x\n{line}\n")
    root = tmp_path / "root"
    assert memory.kill_count(str(root), str(membership)) is None
    (root / name).parent.mkdir(parents=True)
    (root / name).write_text("under_oom 0\noom 3\noom_kill 2\n")
    assert memory.kill_count(str(root), str(membership)) == 2


def test_commands_that_are_mpi_programs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\nfrom mpi4py import MPI\n")
    plain = tmp_path / "plain.py"
    plain.write_text("import os  # no MPI\n")
    two = Launcher(0, 2)
    for command in (["python", str(script)], ["python", "-c", "import mpi4py.MPI"]):
        hint = mpi_hint(command, two)
        assert hint is not None and "--mode mpi" in hint and "fanstore exec" in hint
        assert mpi_hint(command, ALONE) is None and mpi_hint(command, Launcher(1, 2)) is None
    assert mpi_hint(["python", str(plain)], two) is None
    assert mpi_hint(["no-such-program"], two) is None


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_program_linked_with_mpi(tmp_path: Path) -> None:
    (tmp_path / "mpi.c").write_text("int x(void) { return 1; }\n")
    (tmp_path / "main.c").write_text("int x(void); int main(void) { return x(); }\n")
    library, program = tmp_path / "libmpi.so.12", tmp_path / "main"
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libmpi.so.12", "-o", library,
                    tmp_path / "mpi.c"], check=True)  # fmt: skip
    subprocess.run(["cc", "-o", program, tmp_path / "main.c", library], check=True)
    assert mpi_hint([str(program)], Launcher(0, 4)) is not None
