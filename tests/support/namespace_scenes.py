"""Scenes on a cluster, and how their calls end."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from namespace_world import Cluster

NEW = os.O_WRONLY | os.O_CREAT
INPUTS: dict[bytes, bytes | str | None] = {b"in": None, b"in/sub": None}


def play(
    tmp_path: Path, scene: Callable[[Cluster], Awaitable[None]], size: int = 2, clean: bool = True,
    **fields: Any,
) -> None:  # fmt: skip
    """Runs a scene, and looks whether it left anything behind where it is to be `clean`."""

    async def run() -> None:
        cluster = Cluster(size, tmp_path / "objects", INPUTS, **fields)
        try:
            await asyncio.wait_for(scene(cluster), 120)
            if clean:
                await cluster.check_clean()
        finally:
            cluster.world.close()

    asyncio.run(run())


def delays(seed: int, most: int = 6) -> Callable[[], int]:
    """Random ones."""
    rng = random.Random(seed)
    return lambda: rng.randrange(most)


async def fails(call: Awaitable[Any]) -> int:
    """The errno of a call that must fail."""
    with pytest.raises(OSError) as caught:
        await call
    assert caught.value.errno is not None
    return caught.value.errno


async def outcome(call: Awaitable[Any]) -> int:
    """Its errno, or 0."""
    try:
        await call
    except OSError as error:
        assert error.errno is not None
        return error.errno
    return 0
