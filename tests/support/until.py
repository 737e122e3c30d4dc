"""Waits in an event loop for something to become true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(reached: Callable[[], bool]) -> None:
    """Returns once `reached` tells so; fails after a minute, which even a busy machine keeps."""
    for _ in range(12_000):
        if reached():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("nothing moves")
