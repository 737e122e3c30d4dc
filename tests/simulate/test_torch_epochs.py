"""Epochs of a torch job, measured and simulated (tools/regimes/torch_jobs.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from slow_tree import needs_fuse

_TOOL = Path(__file__).resolve().parents[2] / "tools" / "regimes" / "torch_jobs.py"
_TRIES = 3
_WITHIN = 0.10


@needs_fuse
@pytest.mark.soak
@pytest.mark.parametrize("regime", ["1", "2", "3", "4"])
def test_later_epochs_take_as_long_as_simulated(tmp_path: Path, regime: str) -> None:
    """The simulator does not know about other programs, so a machine with much to do is no
    judge."""
    pytest.importorskip("torch")
    found: list[float] = []
    for number in range(_TRIES):
        if os.getloadavg()[0] > (os.cpu_count() or 1) + len(found):
            pytest.skip("other programs use the cores")
        found.append(_measured_by_simulated(tmp_path / str(number), regime))
        if abs(found[-1] - 1) <= _WITHIN:
            return
    pytest.fail(f"measured by simulated: {found}")


def _measured_by_simulated(work: Path, regime: str) -> float:
    words = [sys.executable, _TOOL, work, "--python", sys.executable, "--regimes", regime]
    done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300)
    row = done.stdout.splitlines()[-1]
    return float(row.rstrip(" |").rpartition(" ")[2])
