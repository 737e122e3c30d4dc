"""Programs make calls from signal handlers and threads with stacks of 16 KiB."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from serving import make_stage

# Of 16 KiB the kernel's frame of a signal takes up to 3.5 with AVX-512; a thread of the least size
# has 4 less for what glibc keeps there.
MOST_BYTES = 11 << 10
SOURCE = Path(__file__).with_name("stack_depth.c")


@pytest.mark.parametrize("codec", ["store", "zstd"])
def test_calls_in_a_mount_need_no_large_stack(tmp_path: Path, codec: str) -> None:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    program = str(tmp_path / "depth")
    # Bound at the start: the dynamic linker takes 3 KiB for a first call.
    subprocess.run([*compiler, "-O1", "-Wl,-z,now", "-o", program, SOURCE], check=True)
    stage = make_stage(tmp_path)
    source = stage.source(files={"s/f": b"content " * 100})
    (source / "s" / "l").symlink_to("f")
    dataset = stage.dataset(source, "data", "--codec", codec)
    output = ("--output-dir", str(tmp_path / "out"))
    said = stage.run(dataset, program, str(stage.mount / "s"), options=output).stdout
    depths = {name: int(depth) for name, depth in map(str.split, said.splitlines())}
    assert len(depths) > 30
    assert {name: depth for name, depth in depths.items() if depth > MOST_BYTES} == {}
