"""The library starts before what stands in front of libc is ready (a sanitizer, an allocator)."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from serving import Stage, make_stage

COMPILER = shlex.split(os.environ.get("CC", "cc"))
PRELOADS = {
    "libjemalloc.so.2": ("MALLOC_CONF=confirm_conf:true", "<jemalloc>: malloc_conf"),
    "libmimalloc.so.2": ("MIMALLOC_VERBOSE=1", "mimalloc:"),
    "libtcmalloc_minimal.so.4": ("A=1", ""),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    stage = make_stage(tmp_path_factory.mktemp("not_ready"))
    stage.dataset(stage.source(files={"f": b"content"}))
    return stage


def compiled(stage: Stage, *options: str) -> str:
    source, program = Path(__file__).with_name("not_ready.c"), stage.path / "program"
    subprocess.run([*COMPILER, *options, "-o", program, source], check=True)
    return str(program)


def run(stage: Stage, script: str) -> subprocess.CompletedProcess[str]:
    """Runs a shell's script with $f as a file of the mount."""
    return stage.run(stage.path / "data", "sh", "-c", f"f={stage.mount}/f; {script}")


def test_nothing_is_called_before_it_is_ready(stage: Stage) -> None:
    program = compiled(stage, "-fno-builtin", "-rdynamic")
    assert run(stage, f"{program} < $f").stdout == "content"
    for path in ("/nowhere", f"{stage.mount}/lib:/nowhere"):
        assert run(stage, f"LD_LIBRARY_PATH={path} {program} < $f").stdout == "content"


@pytest.mark.parametrize("library", PRELOADS)
def test_allocators_see_their_environment(stage: Stage, library: str) -> None:
    probe = subprocess.run(["true"], env={"LD_PRELOAD": library}, capture_output=True)
    if probe.stderr:
        pytest.skip(f"{library} is not installed")
    variable, words = PRELOADS[library]
    done = run(stage, f"env {variable} LD_PRELOAD={library} cat $f")
    assert "content" in done.stdout and words in done.stdout + done.stderr


def test_a_program_with_tsan_in_it(stage: Stage) -> None:
    source, program = stage.path / "copy.c", stage.path / "copy"
    source.write_text("#include <stdio.h>\nint main(void) { putchar(getchar()); }\n")
    link = [*COMPILER, "-fsanitize=thread", "-static-libtsan", "-o", program, source]
    made = subprocess.run(link, capture_output=True).returncode == 0
    plain = ["sh", "-c", f"echo x | setarch -R {program}"]
    if not made or subprocess.run(plain, capture_output=True).stdout != b"x":
        pytest.skip("TSan is not here")
    assert run(stage, f"setarch -R {program} < $f").stdout == "c"


def test_heaptrack(stage: Stage) -> None:
    if shutil.which("heaptrack") is None:
        pytest.skip("heaptrack is not installed")
    done = run(stage, f"cd {stage.path} && timeout 60 heaptrack -o trace cat $f")
    assert "content" in done.stdout
