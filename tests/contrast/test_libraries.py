"""numpy, Pillow, OpenCV, h5py, PyTorch and their like, where they are installed."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from arena import Arena
from harness import compare
from programs import CLIENTS, python_cases
from soak import combined, one_of

CASES = python_cases("py_libraries.py")


def label(value: tuple[str, str] | str) -> str:
    return value if isinstance(value, str) else value[1]


@pytest.mark.parametrize(
    "case, codec", one_of(2, combined(CASES, ["store", "lz4", "zstd"])), ids=label
)
def test_library(arena: Arena, case: tuple[str, str], codec: str) -> None:
    module = case[1].partition("_")[0]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed for this Python")
    compare(arena, [sys.executable, "-u", str(CLIENTS / case[0]), case[1]], codec)
