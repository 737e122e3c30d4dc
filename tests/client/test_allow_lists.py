"""Programs that allow themselves few system calls (seccomp), as file(1) does, read inputs."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from serving import Stage, make_stage
from soak import sampled

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
@pytest.mark.parametrize("options", [(), ("--stage", "lazy"), ("--in-place",)], ids=str)
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
