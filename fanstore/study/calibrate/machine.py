"""Writes the measurements as TOML: the table [system] of a scenario, without the keys of the
job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fanstore.study.calibrate.network import FETCH_BYTES
from fanstore.study.calibrate.together import Measured
from fanstore.study.fields import Fields, rate_text
from fanstore.wording import show_bytes

_MIB = 1 << 20


@dataclass(frozen=True)
class Machine:
    """The measurements, and how they were made. heading: lines with time, place and versions.
    threads: of a rank. network: None with one rank."""

    heading: tuple[str, ...]
    shared: Measured
    shared_where: str
    local_read: Measured
    local_write: Measured
    local_where: str
    copy: Measured
    network: Measured | None
    nodes: int
    ranks_per_node: int
    threads: int
    memory_bytes: int
    disk_bytes: int


def doubts(machine: Machine) -> list[str]:
    """Returns a line for each worthless figure, with the reason."""
    found = []
    for name, measured in _parts(machine):
        why: dict[str, list[str]] = {}
        for count, repeats in measured.points.items():
            if repeats.doubt is not None:
                why.setdefault(repeats.doubt, []).append(str(count))
        found += [f"{name} at {', '.join(at)}: WORTHLESS: {doubt}" for doubt, at in why.items()]
        found += [f"{name}: {note}" for note in measured.notes if "WORTHLESS" in note]
    return found


def _parts(machine: Machine) -> Iterator[tuple[str, Measured]]:
    yield "shared file system", machine.shared
    yield "local disk, reading", machine.local_read
    yield "local disk, writing", machine.local_write
    yield "memory", machine.copy
    if machine.network is not None:
        yield "network", machine.network


def text_of(machine: Machine) -> str:
    """Returns the content of the machine's TOML file."""
    lines = [
        *(f"# {line}" for line in machine.heading),
        "# Spreads follow rates: (slowest - fastest) / median; with four repeats or more,",
        "# these two are left out.",
        "# nodes and ranks_per_node are those of this measurement. Add what is of a job: compute",
        "# and preprocess.",
        *(f"# {line}" for line in doubts(machine)),
        "",
        "[system]",
        f"nodes = {machine.nodes}",
        f"ranks_per_node = {machine.ranks_per_node}",
        *_network(machine.network),
        "",
        *_shared(machine),
        "",
        *_staging_buffer(machine),
        *_classes(machine),
    ]
    return "\n".join(lines) + "\n"


def _network(network: Measured | None) -> Iterator[str]:
    if network is None:
        yield "# network: not measured with one rank; `mpiexec fanstore study calibrate` does."
        return
    for size, repeats in network.points.items():
        rate = rate_text(repeats.bytes_per_s)
        yield f"# messages of {show_bytes(size)}: {rate}, spread {100 * repeats.spread:.0f} %"
    yield f'network = "{rate_text(network.points[FETCH_BYTES].bytes_per_s)}"'


def _shared(machine: Machine) -> Iterator[str]:
    shared = machine.shared
    yield f"[system.shared]  # {machine.shared_where}"
    yield from (f"# {note}" for note in shared.notes)
    yield f"readers = {list(shared.points)}"
    yield f"rate = {_rates(shared)}  # {_spreads(shared)}"
    yield f"readers_per_rank = {machine.threads}"


def _staging_buffer(machine: Machine) -> Iterator[str]:
    capacity = machine.memory_bytes // 8 // machine.ranks_per_node // _MIB
    yield "[system.staging_buffer]  # of a rank; chosen: an eighth of the memory that was free"
    yield f'capacity = "{max(1, capacity)} MiB"'
    yield f"threads = {machine.threads}"
    yield f"write = {_curve(machine.copy)}  # {_spreads(machine.copy)}"


def _classes(machine: Machine) -> Iterator[str]:
    """Yields the lines of the storage classes, the faster one first, as in scenarios."""
    threads = machine.threads * machine.ranks_per_node
    memory = _class("ram", "chosen: half of the memory that was free", machine.memory_bytes // 2,
                    threads, machine.copy, machine.copy)  # fmt: skip
    disk = _class("disk", f"{machine.local_where}; chosen: nine tenths of what was free",
                  machine.disk_bytes * 9 // 10, threads, machine.local_read,
                  machine.local_write)  # fmt: skip
    pair = [(_share(machine.copy, threads), memory), (_share(machine.local_read, threads), disk)]
    for _, lines in sorted(pair, key=lambda each: -each[0]):
        yield ""
        yield from lines


def _class(
    name: str, where: str, capacity: int, threads: int, read: Measured, write: Measured
) -> Sequence[str]:
    return [
        f"[[system.classes]]  # {where}",
        f'name = "{name}"',
        f'capacity = "{capacity // _MIB} MiB"',
        f"threads = {threads}",
        *(f"# {note}" for note in read.notes),
        f"read = {_curve(read)}  # {_spreads(read)}",
        f"write = {_curve(write)}  # {', '.join([_spreads(write), *write.notes])}",
    ]


def _share(measured: Measured, threads: int) -> float:
    """Returns the rate of one of `threads` threads, by the curve that scenarios will read."""
    table = {"threads": list(measured.points), "rate": json.loads(_rates(measured))}
    return Fields("", "", table, ("threads", "rate")).points("threads").share(threads)


def _curve(measured: Measured) -> str:
    return f"{{ threads = {list(measured.points)}, rate = {_rates(measured)} }}"


def _rates(measured: Measured) -> str:
    return json.dumps([rate_text(each.bytes_per_s) for each in measured.points.values()])


def _spreads(measured: Measured) -> str:
    percents = [f"{100 * each.spread:.0f}" for each in measured.points.values()]
    return f"spread {', '.join(percents)} %"
