"""Programs that allow themselves few system calls (seccomp), as file(1) does, read inputs."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from serving import Stage, make_stage
from soak import one_of, sampled

LIMIT_S = 60.0
PAUSE_S = 0.5  # the library looks after the daemon every 0.1 s
SOURCE = Path(__file__).with_name("allow_list.c")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return make_stage(tmp_path)


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = str(tmp_path / "allow_list")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    # Bound at the start, as the dynamic linker's own calls are none of the program's.
    subprocess.run([*compiler, "-Wl,-z,now", "-pthread", "-o", path, SOURCE], check=True)
    return path


@pytest.mark.parametrize("codec", sampled(["store", "zstd"], ["zstd"]))
@pytest.mark.parametrize("options", one_of(3, [("--stage", "lazy"), ("--in-place",), ()]), ids=str)
def test_a_program_with_few_calls_reads_as_on_a_plain_directory(
    stage: Stage, program: str, codec: str, options: tuple[str, ...]
) -> None:
    files = {"small": b"x" * 3000, "large": bytes(range(256)) * 400, "sub/deep": b"deep"}
    source = stage.source(files=files)
    (source / "link").symlink_to("sub/deep")
    dataset = stage.dataset(source, "data", "--codec", codec)
    for how in ("prctl", "seccomp", "prctl warm", "seccomp thread"):
        plain = subprocess.run([program, how, source], capture_output=True, text=True)
        if plain.returncode == 77:
            pytest.skip("no filters here")
        assert plain.returncode == 0
        served = stage.run(dataset, program, how, str(stage.mount), options=options)
        assert served.stdout == plain.stdout, how


@pytest.mark.parametrize("end", [signal.SIGCONT, signal.SIGKILL], ids=["slow", "killed"])
def test_a_program_with_few_calls_waits_for_a_daemon(
    stage: Stage, program: str, end: signal.Signals
) -> None:
    """While a daemon is slow the program looks whether it lives; it notices when it was killed."""
    files = {name: name.encode() * 500 for name in ("small", "large", "sub/deep")}
    source = stage.source(files=files)
    (source / "link").symlink_to("sub/deep")
    plain = subprocess.run([program, "prctl", source], capture_output=True, text=True)
    if plain.returncode == 77:
        pytest.skip("no filters here")
    dataset = stage.dataset(source, "data", "--codec", "zstd")
    command = [program, "prctl paused", str(stage.mount)]
    run = [sys.executable, "-m", "fanstore", "run", "--quiet", "--dataset", str(dataset)]
    argv = [*run, "--mount", str(stage.mount), "--stage", "lazy", "--", *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, env=stage.env, stdin=pipe, stdout=pipe, text=True) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        assert job.stdout.readline() == "paused\n"
        daemon = stage.status()["daemon_pid"]
        os.kill(daemon, signal.SIGSTOP)
        job.stdin.write("\n")
        job.stdin.flush()
        time.sleep(PAUSE_S)
        os.kill(daemon, end)
        out, _ = job.communicate(timeout=LIMIT_S)
    code = (
        0 if end == signal.SIGCONT else 125
    )  # the job fails without its daemon; its program reads on
    assert (job.returncode, out) == (code, plain.stdout)
