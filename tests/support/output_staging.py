"""Stages out what ranks without clients do, and looks at what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from output_ranks import Cluster, Rank
from until import until

from fanstore.outputs.model.entries import Place
from fanstore.outputs.stageout.journal import read_journal

WAIT_S = 60.0


def run(
    cluster: Cluster, work: Callable[[], Awaitable[None]] | None = None, started: bool = True
) -> list[dict[str, Any]]:
    """Stages out what `work` does; the summaries."""

    async def whole() -> list[dict[str, Any]]:
        if started:
            cluster.start()
        if work is not None:
            await work()
        if not started:
            cluster.start()
        try:
            return await asyncio.wait_for(cluster.flush(), WAIT_S)
        finally:
            cluster.close()

    return asyncio.run(whole())


async def ended(cluster: Cluster, flush: Awaitable[None]) -> dict[str, Any]:
    """Waits for the flush of the first rank, and ends all; its summary."""
    await asyncio.wait_for(flush, WAIT_S)
    summary = await cluster.account(cluster.ranks[0])
    cluster.close()
    return summary


async def settled(rank: Rank) -> None:
    """Waits until a rank's line is empty, without the haste of the end."""
    await until(lambda: rank.stage_out.figures()["waiting"] == 0)


def names_in(journal: str | Path) -> dict[int, Place]:
    """The published objects, as a rescue reads them."""
    found = read_journal(str(journal))
    assert found is not None
    return {number: each.name for number, each in found[1].named.items()}


def tree(directory: Path) -> dict[str, bytes | str | None]:
    """Each name below, with a file's bytes, a link's target, or None; what goes meanwhile is not
    among them."""
    found: dict[str, bytes | str | None] = {}
    for folder, names, files in os.walk(directory):
        for name in names + files:
            path = Path(folder, name)
            shown = os.fspath(path.relative_to(directory))
            with contextlib.suppress(FileNotFoundError):
                if path.is_symlink():
                    found[shown] = os.readlink(path)
                else:
                    found[shown] = path.read_bytes() if path.is_file() else None
    return found
