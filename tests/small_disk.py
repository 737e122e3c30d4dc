"""A disk that fills up soon."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(directory: Path, size: str = "1m") -> Iterator[None]:
    """A tmpfs of `size` at `directory`."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(directory)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs takes root, and a machine that lets it")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
