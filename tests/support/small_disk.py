"""A disk that fills up soon."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def _call(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _mount(directory: Path, size: str, kind: str) -> bool:
    if kind == "tmpfs":
        return _call("mount", "-t", "tmpfs", "-o", f"size={size}", "small", str(directory))
    image = directory.with_name(f"{directory.name}.{kind}")
    return (
        _call("truncate", "--size", size, str(image))
        and _call(f"mkfs.{kind}", "-q", "-F", "-m", "0", str(image))
        and _call("mount", "-o", "loop", str(image), str(directory))
    )


@contextlib.contextmanager
def small_disk(directory: Path, size: str = "1m", kind: str = "tmpfs") -> Iterator[None]:
    """A file system of `size` at `directory`: a tmpfs, or an ext4 in a file beside it."""
    if os.getuid() != 0 or not _mount(directory, size, kind):
        pytest.skip(f"mounting a small {kind} takes root, and a machine that lets it")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
