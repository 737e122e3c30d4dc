"""The model of jobs on thousands of nodes (tools/scale): beside what can be worked out by hand."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

SCALE = Path(__file__).resolve().parents[2] / "tools" / "scale"
sys.path.append(str(SCALE))
parts: Any = importlib.import_module("parts")
traffic: Any = importlib.import_module("traffic")
whole: Any = importlib.import_module("whole")

MEASURED = parts.Measured()
MACHINE = parts.Machine()
LARGE = 8 << 20


def job(size: int, readers: int = 1) -> Any:
    return parts.Job(files=1000, file_bytes=size, readers=readers)


def simulated(nodes: int, machine: Any, what: Any, holders: Any, files: int = 40) -> Any:
    return traffic.Simulation(nodes, machine, MEASURED, what, holders).run(files)


def other(_chance: Any, reader: int) -> int:
    """Of two nodes with one reader each, the other one."""
    return 1 - reader


def test_a_fetch_that_meets_no_other_takes_the_sum_of_its_parts() -> None:
    size = 128 << 10
    found = simulated(2, MACHINE, replace(job(size), compute_s=0.01), other)
    expected_s = (
        MEASURED.fetch_s + MEASURED.serve_s + MEASURED.read_s + 2 * MACHINE.latency_s
        + size / MACHINE.link_bytes_per_s + size / MEASURED.copy_bytes_per_s
    )  # fmt: skip
    assert found.median_s == pytest.approx(expected_s)
    assert found.queued_s < 1e-9
    assert found.files_per_s == pytest.approx(1 / (0.01 + expected_s), rel=0.1)


def test_large_files_fill_the_links_and_no_more() -> None:
    found = simulated(16, MACHINE, job(LARGE, 8), traffic.anywhere(16))
    rate = found.files_per_s * LARGE * 15 / 16  # of the others' files
    assert 0.7 * MACHINE.link_bytes_per_s < rate <= 1.05 * MACHINE.link_bytes_per_s


def test_all_that_lies_on_one_node_goes_over_its_link() -> None:
    nodes = 16
    found = simulated(nodes, MACHINE, job(LARGE, 2), traffic.hot(nodes, 1.0, 1))
    spread = simulated(nodes, MACHINE, job(LARGE, 2), traffic.hot(nodes, 1.0, 4))
    assert found.busiest > 0.9
    rate = found.files_per_s * nodes * LARGE
    own = 2 * MEASURED.copy_bytes_per_s  # what that node reads of itself
    assert 0.9 * MACHINE.link_bytes_per_s < rate < 1.05 * (MACHINE.link_bytes_per_s + own)
    assert spread.files_per_s > 1.3 * found.files_per_s


def test_leaves_with_few_links_up_hold_large_files_back() -> None:
    what, nodes = job(LARGE, 4), 64
    rates = [
        simulated(nodes, replace(MACHINE, leaf_nodes=16, uplinks=uplinks), what,
                  traffic.anywhere(nodes), 16).files_per_s
        for uplinks in (16, 8, 4)
    ]  # fmt: skip
    assert rates[0] > 1.1 * rates[1] and rates[1] > 1.5 * rates[2]


def test_the_same_question_has_the_same_answer() -> None:
    once, again = (whole.traffic_of(32, MACHINE, MEASURED, job(4096, 2)) for _ in range(2))
    assert once == again


def test_what_grows_with_ranks_grows_no_faster() -> None:
    """Twice the ranks are at most twice as long at the start and the end, and twice the memory."""
    what = parts.Job(files=1_000_000, file_bytes=1000)
    for nodes in (512, 4096, 16384):
        small, large = (whole.start_of(n, MACHINE, MEASURED, what) for n in (nodes, 2 * nodes))
        assert small.told_s < large.told_s < 2.1 * small.told_s
        assert large.index_s < 1.1 * small.index_s
        assert large.staging_s <= small.staging_s
        assert whole.end_s(2 * nodes, MACHINE, MEASURED) < 2.1 * whole.end_s(
            nodes, MACHINE, MEASURED
        )
        assert whole.memory_bytes(2 * nodes, MEASURED) == 2 * whole.memory_bytes(nodes, MEASURED)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCALE / "scale.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_command_prints_tables_and_refuses_nonsense() -> None:
    done = run("--nodes", "2,4", "--files", "1000", "--no-paper")
    assert done.returncode == 0, done.stderr
    assert "| 4 | 1 % on 16 nodes |" not in done.stdout
    assert "| 4 | anywhere |" in done.stdout
    for wrong in (("--nodes", "two"), ("--nodes", "0"), ("--compute", "-1")):
        assert "allowed" in run(*wrong).stderr or "more" in run(*wrong).stderr
