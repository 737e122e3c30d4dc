"""numpy, Pillow, OpenCV, h5py, PyTorch and their like, where they are installed."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from arena import Arena
from harness import compare
from programs import CLIENTS, python_cases

CASES = python_cases("py_libraries.py")
SLOW_TO_IMPORT = ("torch",)


def parameters() -> list[object]:
    """Each case stored and compressed; a module that takes seconds to import stored alone."""
    return [
        pytest.param(
            case, codec, id=f"{case[1]}-{codec}", marks=[pytest.mark.soak] * (codec == "lz4")
        )
        for case in CASES
        for codec in ("store", "lz4", "zstd")
        if codec == "store" or not case[1].startswith(SLOW_TO_IMPORT)
    ]


@pytest.mark.parametrize(("case", "codec"), parameters())
def test_library(arena: Arena, case: tuple[str, str], codec: str) -> None:
    module = case[1].partition("_")[0]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed for this Python")
    compare(arena, [sys.executable, "-u", str(CLIENTS / case[0]), case[1]], codec)
