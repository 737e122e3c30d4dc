"""numpy, Pillow, OpenCV, h5py, PyTorch and their like, where they are installed."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from arena import Arena
from harness import compare
from programs import CLIENTS, python_cases


@pytest.mark.parametrize("codec", ["store", "lz4", "zstd"])
@pytest.mark.parametrize("case", python_cases("py_libraries.py"), ids=lambda case: case[1])
def test_library(arena: Arena, case: tuple[str, str], codec: str) -> None:
    module = case[1].partition("_")[0]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed for this Python")
    compare(arena, [sys.executable, "-u", str(CLIENTS / case[0]), case[1]], codec)
