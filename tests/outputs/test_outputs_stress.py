"""Writers on several ranks, killed at random; see output_stress.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import output_stress
import pytest
from mpiexec import needs_ranks
from soak import sampled
from stress_content import Board
from stress_reader import INPUTS
from stress_writer import SLOTS


@needs_ranks
@pytest.mark.parametrize("seconds", sampled([1.0, 60.0], [1.0]))
def test_nothing_half_written_is_seen(tmp_path: Path, seconds: float) -> None:
    report = output_stress.stress(tmp_path, seconds, ranks=4, writers=8, seed=1)
    assert not report.wrong, "\n".join([*report.wrong, report.said])
    # How far it comes is a matter of how busy the machine is; that it did something is not.
    killed = [count for what, count in report.outcomes.items() if what.endswith("killed")]
    assert sum(killed) > 0
    assert report.outcomes["settled names"] > 0
    assert report.outcomes["files in the end"] > 0


def test_in_a_plain_directory_it_is(tmp_path: Path) -> None:
    """So that the test above can fail. On a busy machine readers and writers may never meet in a
    short run: it is tried again."""
    assert any(sees_torn_files(tmp_path / str(seed), seed) for seed in range(20))


def sees_torn_files(place: Path, seed: int) -> bool:
    """Whether readers of a plain directory come upon what is half written."""
    results, job, mount = (place / name for name in ("results", "job", "mount"))
    for directory in (results, job / "objects", mount / "input"):
        directory.mkdir(parents=True)
    for relpath, content in INPUTS.items():
        (mount / relpath).write_bytes(content)
    Board.make(results / "board", 2 * SLOTS)
    spec = {"results": str(results), "seconds": 1.0, "seed": seed, "writers": 2}
    (results / "spec").write_text(json.dumps(spec))
    env = {
        "FANSTORE_RANK": "0", "FANSTORE_WORLD_SIZE": "1", "FANSTORE_MOUNT_PREFIX": str(mount),
        "FANSTORE_JOB_DIR": str(job),
    }  # fmt: skip
    argv = [sys.executable, output_stress.__file__, "--rank", str(results / "spec")]
    subprocess.run(argv, env={**os.environ, **env}, timeout=60, check=True, capture_output=True)
    wrong = json.loads((results / "reader-0.json").read_text())["wrong"]
    return "Torn" in "".join(wrong)
