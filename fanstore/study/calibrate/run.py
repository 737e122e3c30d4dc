"""Makes all measurements, on all ranks, one after the other."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fanstore import __version__
from fanstore.arrays import np
from fanstore.errors import UsageError
from fanstore.staging.local_dir import LocalDirectory, fs_type
from fanstore.startup import World
from fanstore.study.calibrate.extents import portions
from fanstore.study.calibrate.machine import Machine
from fanstore.study.calibrate.network import network_rates
from fanstore.study.calibrate.storage import (
    COUNTS,
    copy_rates,
    free_bytes,
    local_rates,
    processors,
    reader_counts,
    shared_rates,
)
from fanstore.study.calibrate.together import Bench
from fanstore.wording import counted

_THREADS_MOST = 8


@dataclass(frozen=True)
class CalibrationPlan:
    """The measurements to make. budget_bytes: the most that is written, or read at once."""

    shared: Path
    local: LocalDirectory
    budget_bytes: int
    repeats: int


def measure(orders: CalibrationPlan, world: World) -> Machine | None:
    """Returns the measurements on rank 0, None on the others. Every rank calls this. Raises
    FanstoreError, OSError."""
    if not orders.shared.is_dir():
        raise UsageError(f"{orders.shared}: there is no such directory")
    hosts = world.gather_all(platform.node())
    bench = Bench(world, _total_bytes(orders, world))
    budget, repeats = orders.budget_bytes, orders.repeats
    shared = shared_rates(orders.shared, budget, repeats, bench, turns(hosts))
    network = network_rates(budget, repeats, bench, hosts) if len(hosts) > 1 else None
    machine = None
    if world.rank == 0:
        reading, writing = local_rates(Path(orders.local.path), budget, repeats, bench)
        ranks_per_node = hosts.count(hosts[0])
        machine = Machine(
            heading=tuple(_heading(orders, hosts)),
            shared=shared,
            shared_where=f"{orders.shared} ({fs_type(str(orders.shared))}), readers on "
            f"{counted(len(set(hosts)), 'node')}",
            local_read=reading,
            local_write=writing,
            local_where=f"{orders.local.path} ({orders.local.fs_type})",
            copy=copy_rates(budget, repeats, bench),
            network=network,
            nodes=len(set(hosts)),
            ranks_per_node=ranks_per_node,
            threads=max(1, min(_THREADS_MOST, processors() // ranks_per_node)),
            memory_bytes=free_bytes(),
            disk_bytes=orders.local.free_bytes,
        )
    world.gather_all(None)
    return machine


def turns(hosts: Sequence[str]) -> list[int]:
    """Returns the ranks in the order in which they get readers: one rank of each host, then the
    next of each."""
    seen: dict[str, int] = {}
    turn = []
    for rank, host in enumerate(hosts):
        turn.append((seen.get(host, 0), rank))
        seen[host] = seen.get(host, 0) + 1
    return [rank for _, rank in sorted(turn)]


def _total_bytes(orders: CalibrationPlan, world: World) -> int:
    """Estimates the bytes that this rank writes and reads, for the progress bar."""
    counts = reader_counts(world.world_size)
    unit = portions(counts, orders.budget_bytes)[0]
    shared = (orders.budget_bytes + unit * len(counts) * orders.repeats) // world.world_size
    unit = portions(COUNTS, orders.budget_bytes)[0]
    local = orders.budget_bytes + 2 * unit * len(COUNTS) * orders.repeats
    return shared + (local if world.rank == 0 else 0)


def _heading(orders: CalibrationPlan, hosts: Sequence[str]) -> list[str]:
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    ranks = (
        f"{len(hosts)} ranks on {counted(len(set(hosts)), 'node')}"
        if len(hosts) > 1
        else "one process"
    )
    return [
        f"Measured by fanstore study calibrate on {hosts[0]}, {when}: {ranks}, "
        f"{orders.repeats} repeats of up to {orders.budget_bytes:,} bytes.",
        f"FanStore {__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{os.uname().sysname} {os.uname().release}.",
    ]
