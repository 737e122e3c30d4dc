"""tools/slow: a directory that is read as slowly as a shared file system."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "tools" / "slow" / "slow.c"
CURVE = b"1:100,3:300,7:500"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("slow") / "slow.so"
    flags = ("-std=gnu11", "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC", "-o", str(made))
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, *flags, str(SOURCE)], check=True)
    return made


@pytest.mark.parametrize(
    ("curve", "readers", "rate"),
    [
        (None, 1, 0), (b"", 1, 0), (b"2e8", 5, 2e8),
        (CURVE, 1, 100), (CURVE, 2, 200), (CURVE, 3, 300), (CURVE, 5, 400), (CURVE, 9, 500),
    ],
)  # fmt: skip
def test_the_rate_is_linear_between_points(
    library: Path, curve: bytes | None, readers: int, rate: float
) -> None:
    slow_rate = ctypes.CDLL(str(library)).slow_rate
    slow_rate.restype = ctypes.c_double
    assert slow_rate(curve, ctypes.c_uint(readers)) == rate


def read_slowly(
    library: Path, tmp_path: Path, rate: str, state: str = "state"
) -> subprocess.CompletedProcess[str]:
    (tmp_path / "data").write_bytes(bytes(1_000_000))
    code = "import os, sys; print(len(os.pread(os.open(sys.argv[1], os.O_RDONLY), 1 << 20, 0)))"
    slow = {
        "LD_PRELOAD": str(library), "SLOW_DIR": str(tmp_path), "SLOW_BYTES": rate,
        "SLOW_STATE": str(tmp_path / state),
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data")], env={**os.environ, **slow},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_read_takes_as_long_as_the_rate_says(library: Path, tmp_path: Path) -> None:
    """By the clock of those who read: the line ends so long after the reader came."""
    before_ns = time.monotonic_ns()
    done = read_slowly(library, tmp_path, "1:2000000,4:9000000")
    assert (done.returncode, done.stdout) == (0, "1000000\n")
    end_ns = int.from_bytes((tmp_path / "state").read_bytes()[:8], "little")
    assert end_ns >= before_ns + 500_000_000


def test_a_rate_without_a_file_that_all_share_is_refused(library: Path, tmp_path: Path) -> None:
    done = read_slowly(library, tmp_path, "1000", "none/state")
    assert done.returncode == 2 and "SLOW_STATE" in done.stderr


@pytest.mark.parametrize("rate", ["fast", "1:", "2:10,1:20", "1:10;2:20", "1:0", "1:10,x"])
def test_rates_that_make_no_sense_are_refused(library: Path, tmp_path: Path, rate: str) -> None:
    done = read_slowly(library, tmp_path, rate)
    assert done.returncode == 2 and f"SLOW_BYTES={rate}" in done.stderr
