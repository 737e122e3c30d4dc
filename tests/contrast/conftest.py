"""Fixtures of the contrast suite."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("harness", "recorded")

from arena import Arena  # noqa: E402
from output_sets import SETS  # noqa: E402
from programs import Programs  # noqa: E402
from recorded import Recordings  # noqa: E402


@pytest.fixture(scope="session")
def arena() -> Iterator[Arena]:
    """The plain tree and the daemons; see arena.py."""
    built = Arena()
    try:
        yield built
    finally:
        built.close()


@pytest.fixture(scope="session")
def programs(arena: Arena) -> Programs:
    """The clients in C and C++, compiled once."""
    return Programs(arena.base / "programs")


@pytest.fixture(scope="session")
def recordings(arena: Arena, programs: Programs) -> Recordings:
    """The cases that make outputs; see recorded.py."""
    return Recordings(arena, programs, SETS)


@pytest.fixture(scope="session")
def can_bind_read_only() -> bool:
    """Whether a real read-only bind mount can be made here, to be compared with."""
    probe = ["unshare", "-m", "sh", "-c", "mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp"]
    try:
        return subprocess.run(probe, capture_output=True, timeout=20, check=False).returncode == 0
    except FileNotFoundError:
        return False
