"""Chance is the same each time, whichever tests run."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def same_chance(request: pytest.FixtureRequest) -> None:
    """Gives each test the numbers of its own name from the module's RNG, where it has one."""
    if rng := getattr(request.module, "RNG", None):
        seed = crc32(request.node.name.encode())
        rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state
