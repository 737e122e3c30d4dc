"""What a worker's samples free is not given back to the kernel, unless the user chose otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")

ROUNDS, BYTES = 200, 8 << 20
SCRIPT = f"""
import resource
from fanstore.torch.batches.collating import keep_freed

keep_freed()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    bytearray({BYTES})[:] = bytes({BYTES})
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(**environment: str) -> int:
    """Returns how often a process that takes and frees memory in rounds gets pages anew."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**plain, **environment}, check=True, timeout=300,
        stdout=subprocess.PIPE,
    )  # fmt: skip
    return int(done.stdout)


def test_freed_memory_is_used_again_unless_a_user_chose_otherwise() -> None:
    assert faults() * 3 < faults(MALLOC_MMAP_THRESHOLD_="1048576")
