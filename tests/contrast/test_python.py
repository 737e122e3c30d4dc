"""Python clients: every case_* of clients/py_*.py, and core cases on each Python found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from arena import Arena
from harness import compare
from programs import CLIENTS, parameters, python_cases
from soak import combined, one_of

METADATA = python_cases("py_names.py")
BYTES = [*python_cases("py_fd.py"), *python_cases("py_mmap.py")]
OTHER_CONTENT = [
    case
    for source in ("py_open.py", "py_received.py", "py_process.py", "py_files.py")
    for case in python_cases(source)
]
CORE = [
    ("py_open.py", "text_mode"),
    ("py_open.py", "binary_buffered"),
    ("py_open.py", "binary_unbuffered"),
    ("py_open.py", "missing_enoent"),
    ("py_open.py", "dir_fd"),
    ("py_open.py", "import_from_the_tree"),
    ("py_names.py", "stat_of_everything"),
    ("py_names.py", "scandir"),
    ("py_names.py", "pathlib_iterdir_and_glob"),
    ("py_names.py", "glob_relative_and_root_dir"),
    ("py_fd.py", "dup_shares_the_offset"),
    ("py_files.py", "shutil_copies"),
    ("py_files.py", "zipfile"),
    ("py_mmap.py", "private"),
    ("py_process.py", "multiprocessing_spawn"),
    ("py_process.py", "multiprocessing_forkserver"),
    ("py_process.py", "subprocess_stdin"),
    ("py_process.py", "fork_shares_the_offset"),
]


def interpreters() -> list[str]:
    """Each Python from 3.10 on that is installed here, besides the one running the tests."""
    found = sorted(Path.home().glob(".pyenv/versions/3.1[0-9]*/bin/python"))
    found += [Path("/usr/bin/python3"), *sorted(Path("/usr/local/bin").glob("python3.1[0-9]"))]
    known = {sys.version_info[:3]}
    chosen = []
    for path in found:
        version = version_of(path)
        if version is not None and version >= (3, 10) and version not in known:
            known.add(version)
            chosen.append(str(path))
    return chosen


def version_of(path: Path) -> tuple[int, ...] | None:
    code = "import sys; print(*sys.version_info[:3])"
    try:
        done = subprocess.run([path, "-c", code], capture_output=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(map(int, done.stdout.split()))


def label(value: object) -> str | None:
    if isinstance(value, tuple):
        return f"{value[0].removesuffix('.py')}-{value[1]}"
    return (
        str(value).replace("/bin/python", "").rpartition("/")[2] if isinstance(value, str) else None
    )


def run_client(
    arena: Arena, case: tuple[str, str], codec: str, python: str = sys.executable
) -> None:
    compare(arena, [python, "-u", str(CLIENTS / case[0]), case[1]], codec)


@pytest.mark.parametrize("case", one_of(2, parameters(METADATA)), ids=label)
def test_names(arena: Arena, case: tuple[str, str]) -> None:
    run_client(arena, case, "store")


@pytest.mark.parametrize("case", one_of(3, parameters(OTHER_CONTENT)), ids=label)
def test_content(arena: Arena, case: tuple[str, str]) -> None:
    run_client(arena, case, "store")


@pytest.mark.parametrize(
    "case, codec", one_of(2, combined(parameters(BYTES), ["store", "lz4"])), ids=label
)
def test_bytes(arena: Arena, case: tuple[str, str], codec: str) -> None:
    run_client(arena, case, codec)


@pytest.mark.soak
@pytest.mark.parametrize("case", parameters(OTHER_CONTENT), ids=label)
def test_compressed_too(arena: Arena, case: tuple[str, str]) -> None:
    run_client(arena, case, "lz4")


@pytest.mark.soak
@pytest.mark.parametrize("python", interpreters(), ids=label)
@pytest.mark.parametrize("case", CORE, ids=label)
def test_other_pythons(arena: Arena, case: tuple[str, str], python: str) -> None:
    run_client(arena, case, "store", python)
