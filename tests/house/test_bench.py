"""The benchmark suite's smallest rows, run once, and what it says of goals. No figure is judged."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "tools" / "bench"
PROGRAMS = [*sorted((BENCH / "c").glob("*.c")), BENCH.parent / "scale" / "names.c"]
ROWS = ["read-4k", "read16-4k", "child-4k", "missing", "walk", "py-stat", "cold-4k", "lz4-128k"]
REPORT = """
import json, sys
from pathlib import Path
from results import DIRECTORY, OURS, Floor, Goal, Report, Result, read_report
from table import lines, missed_lines
good = Result("warm", "good", "a row", "file", {DIRECTORY: 900.0, OURS: 300.0},
              goals=[Goal(DIRECTORY, 3.0), Goal("not there", 9.0)])
bad = Result("warm", "bad", "a row", "file", {DIRECTORY: 900.0, OURS: 300.0, "tmpfs": 200.0},
             goals=[Goal(DIRECTORY, 3.5), Goal("tmpfs", 1.0)], processes=2)
report = Report({"cores": "2"}, [good, bad], ["erofs: not here"])
report.write(Path(sys.argv[1]))
assert read_report(Path(sys.argv[1])) == Report(report.machine, [good, bad], report.skipped)
print("\\n".join([*lines(report), "--", *missed_lines(report)]))
"""

FLOORS = """
from floors import least, mark
from results import DIRECTORY, OURS, Report, Result
from table import lines, missed_lines
steps = least({"miss": 100.0, "dup_close": 300.0}, {"miss": 120.0, "dup_close": 250.0})
rows = [
    Result("many", "many-stat", "stat", "call", {DIRECTORY: 900.0, OURS: 220.0}),
    Result("many", "many-open", "open + close", "file", {DIRECTORY: 900.0, OURS: 671.0}),
    Result("remote", "remote-2m-1", "2m", "file", {"bare MPI": 1000.0, OURS: 1400.0}),
    Result("warm", "py-stat", "os.stat", "call", {DIRECTORY: 900.0, OURS: 300.0}),
]
report = Report({"cores": "2"}, rows)
mark(report, steps)
print(*[row.floor and (row.floor.ns, row.floor.most_ns) for row in rows], sep="\\n")
print("\\n".join([*lines(report), "--", *missed_lines(report)]))
"""

WALL_CLOCK = """
from readers import parse, wall_ns_per_unit
half, other = parse("10 1000 2000 0"), parse("10 1500 2500 0")
print(wall_ns_per_unit([half]), wall_ns_per_unit([half, other]))
"""


def bench(*arguments: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, BENCH / "bench.py", *arguments],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    work = tmp_path_factory.mktemp("bench")
    done = bench(
        "--quick", "--repetitions", "1", "--peers", "directory", "--rows", *ROWS,
        "--dir", work, "--json", work / "report.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in work.iterdir()) == ["report.json"]
    found: dict[str, Any] = json.loads((work / "report.json").read_text())
    found["printed"] = done.stdout
    return found


@pytest.mark.soak
def test_every_row_has_both_sides(report: dict[str, Any]) -> None:
    found = {row["key"]: row for row in report["results"]}
    other = {"lz4-128k": "decoder"}
    for key in ROWS:
        # What cannot be measured here (no liblz4, pages that stay in memory) is said.
        if key not in found or "FanStore" not in found[key]["times_ns"]:
            assert any(line.startswith((key, key.split("-")[0])) for line in report["skipped"])
            continue
        times = found[key]["times_ns"]
        assert times["FanStore"] > 0 and times[other.get(key, "directory")] > 0
        assert found[key]["title"] in report["printed"]
    assert found["read-4k"]["floor"]["ns"] > 0


def in_bench(script: str, *arguments: str | os.PathLike[str]) -> str:
    """What a script prints that imports the suite's modules."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(BENCH)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_goals_are_set_from_the_floor() -> None:
    said = in_bench(FLOORS).splitlines()
    # 1.6 misses + 60 ns; 2.2 misses, dup + close and 200 ns; 1.5 times bare MPI; none
    assert said[:4] == ["(100.0, 220.0)", "(350.0, 670.0)", "(1000.0, 1500.0)", "None"]
    (row,) = (line for line in said if line.startswith("| stat "))
    assert "<= 220 ns" in row and "2.20 (a miss: 100 ns)" in row
    assert "cores 2, floors a miss 100 ns; dup + close 250 ns" in said
    assert said[said.index("--") + 1 :] == ["many-open: 671 ns, the goal is 670 ns"]


def test_processes_together_are_timed_by_the_wall_clock() -> None:
    # Two that share a core each see half of its rate: added up, that was twice what there is.
    assert in_bench(WALL_CLOCK).split() == ["100.0", "75.0"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_programs_of_rows_compile(program: Path) -> None:
    """A row whose program does not compile is told as failed, at the end of a long run."""
    if "<mpi.h>" in program.read_text():
        pytest.skip("it takes mpicc, and is built by each run of its rows")
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    subprocess.run(["cc", *flags, program], check=True)


def test_a_missed_goal_is_named(tmp_path: Path) -> None:
    table, _, missed = in_bench(REPORT, tmp_path / "report.json").partition("--\n")
    assert missed.splitlines() == [
        "bad: 3.00 times directory, the goal is 3.50",
        "bad: 0.67 times tmpfs, the goal is 1.00",
    ]
    assert "3.5 **missed**: directory, tmpfs" in table
    assert "## Not measured\n\n- erofs: not here\n" in table
    assert "a row, 2 processes" in table


def test_rows_are_listed_and_chosen() -> None:
    keys = bench("--list").stdout.split()
    assert len(keys) == len(set(keys)) and {"read-4k", "read-4k-2p", "read-4k-8t"} <= set(keys)
    assert bench("--list", "--rows", "read-4k*").stdout.split() == [
        "read-4k", "read-4k-2p", "read-4k-2t", "read-4k-4t", "read-4k-8t",
    ]  # fmt: skip
    refused = bench("--rows", "no-such-row")
    assert refused.returncode == 2 and "no row" in refused.stderr
