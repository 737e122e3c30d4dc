"""The library for aarch64: cases in C and in Python, run by an emulator on the plain tree and on
the mount that this machine's daemon serves."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from arena import Arena
from harness import compare
from programs import CLIENTS, DIFFERENT, compiled_cases, python_cases
from soak import sampled

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))
import aarch64  # noqa: E402

NOT_THERE = "make aarch64 builds what it needs, and runs it"
pytestmark = pytest.mark.skipif(not aarch64.is_ready(), reason=aarch64.missing() or NOT_THERE)
SOURCES = ("c_names.c", "c_dirs.c", "c_inside_libc.c", "c_stdio.c", "c_corners.c")
SCRIPTS = ("py_names.py", "py_open.py", "py_files.py", "py_fd.py", "py_mmap.py")
# Cases that need what qemu-user 7.2 lacks: openat2, MAP_SHARED_VALIDATE, flags of preadv2, ENOTTY
# for unknown ioctls, programs that a program starts (it would be one of this machine's).
LEFT_OUT = {
    "openat2_by_syscall", "map_validated", "readv_and_preadv", "ioctl_fionread",
    "popen_reads_the_tree",
}  # fmt: skip


@pytest.fixture(scope="module")
def libraries() -> Iterator[Path]:
    """A path of the libraries without a space: LD_PRELOAD takes one for the end of a name."""
    with tempfile.TemporaryDirectory(prefix="fanstore-aarch64-", dir="/tmp") as folder:
        link = Path(folder, "native")
        link.symlink_to(aarch64.LIBRARIES)
        yield link


def in_aarch64(libraries: Path, *command: str) -> list[str]:
    """The command under the emulator, which itself is outside of the job."""
    emulated = aarch64.emulated(LD_PRELOAD=str(libraries / "libfanstore_preload.so"))
    return ["env", "FANSTORE_OFF=1", *emulated, "-U", "FANSTORE_OFF", *command]


def possible(cases: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [case for case in cases if case[1] not in DIFFERENT and case[1] not in LEFT_OUT]


COMPILED = possible([case for source in SOURCES for case in compiled_cases(source)])
PYTHON = possible([case for script in SCRIPTS for case in python_cases(script)])


def label(case: tuple[str, str]) -> str:
    return f"{case[0].partition('.')[0]}-{case[1]}"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The clients in C, compiled for aarch64."""
    folder = tmp_path_factory.mktemp("aarch64")
    for source in SOURCES:
        command = [aarch64.CC, "-D_GNU_SOURCE", "-w", "-O1", "-o", folder / source]
        libraries = ["-lpthread", "-ldl"]
        subprocess.run([*command, CLIENTS / source, *libraries], check=True, timeout=120)
    return folder


@pytest.mark.parametrize("case", COMPILED, ids=label)
def test_compiled(arena: Arena, libraries: Path, compiled: Path, case: tuple[str, str]) -> None:
    compare(arena, in_aarch64(libraries, str(compiled / case[0]), case[1]), "store")


@pytest.mark.parametrize("case", sampled(PYTHON, PYTHON[::8]), ids=label)
def test_python(arena: Arena, libraries: Path, case: tuple[str, str]) -> None:
    python = aarch64.ROOT / "usr" / "bin" / "python3.11"
    command = [str(python), str(CLIENTS / case[0]), case[1]]
    compare(arena, in_aarch64(libraries, *command), "lz4")
