"""What starts with every job loads no module that it has no use for."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "asyncio", "ssl", "multiprocessing", "jinja2", "tqdm", "mpi4py")


def loaded_by(modules: str) -> set[str]:
    """Which of the heavy modules come with an import of `modules`."""
    code = f"import sys, {modules}; print(*[name for name in {HEAVY} if name in sys.modules])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "modules", ["fanstore.cli.jobs.run, fanstore.launch.wrapper", "fanstore.launch.attach"]
)
def test_what_starts_a_command_loads_nothing_heavy(modules: str) -> None:
    assert loaded_by(modules) == set()


def test_a_daemon_loads_what_its_event_loop_needs_alone() -> None:
    assert loaded_by("fanstore.job.daemon") == {"asyncio", "ssl"}  # asyncio itself loads ssl
