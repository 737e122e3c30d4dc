"""Small scenarios, and the same simulation as plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from fanstore.policy.placement.rules import NOWHERE
from fanstore.study.simulate.epochs import reads_of_epochs
from fanstore.study.simulate.scenario import Scenario, scenario_from
from fanstore.study.simulate.sources import preprocess_byte_s


def table(**changes: Any) -> dict[str, Any]:
    """A scenario of 4 nodes as TOML gives it; changes: other values, by `table__key`."""
    flat: dict[str, Any] = {
        "system__nodes": 4,
        "system__ranks_per_node": 1,
        "system__compute": "64 MB/s",
        "system__preprocess": "200 MB/s",
        "system__network": "24 GB/s",
        "shared__readers": [1, 2, 4, 8],
        "shared__rate": ["330 MB/s", "730 MB/s", "1540 MB/s", "2870 MB/s"],
        "shared__readers_per_rank": 1,
        "staging_buffer__capacity": "2 MB",
        "staging_buffer__threads": 2,
        "staging_buffer__write": {"threads": [1], "rate": ["10 GB/s"]},
        "classes": [storage("ram", "1 MB", "8 GB/s"), storage("disk", "2 MB", "1 GB/s")],
        "dataset__sizes": "normal",
        "dataset__files": 300,
        "dataset__mean": "40 kB",
        "dataset__deviation": "20 kB",
        "dataset__negative": "zero",
        "dataset__seed": 1,
        "job__epochs": 3,
        "job__batch": 5,
        "job__order": {"name": "torch-distributed", "seed": 7},
    }
    flat.update(changes)
    parts: dict[str, dict[str, Any]] = {}
    for key, value in flat.items():
        where, _, name = key.partition("__")
        if name and value is not None:
            parts.setdefault(where, {})[name] = value
    system = {**parts["system"], "shared": parts["shared"], "classes": flat["classes"]}
    system["staging_buffer"] = parts["staging_buffer"]
    return {"about": "a test", "system": system, "dataset": parts["dataset"], "job": parts["job"]}


def storage(name: str, capacity: str, rate: str) -> dict[str, Any]:
    """A storage class of one thread."""
    curve = {"threads": [1], "rate": [rate]}
    return {"name": name, "capacity": capacity, "threads": 1, "read": curve, "write": curve}


def scenario(**changes: Any) -> Scenario:
    """That table as a scenario."""
    return scenario_from("test.toml", table(**changes))


def plain(scenario: Scenario, placement: Any, preloaded: bool, start_s: float) -> tuple[Any, Any]:
    """The epochs' times and the bytes by source (kind, class), one sample after the other."""
    system, batch_size = scenario.system, scenario.job.batch_size
    sizes = scenario.sizes.draw()
    ranks, threads = system.ranks, system.staging_buffer.threads
    loaded_s, ends_s, read_bytes = [start_s] * ranks, [start_s], [[0] for _ in range(ranks)]
    sources: dict[Any, int] = {}
    epoch_ends_s = [start_s]
    for number, reads in enumerate(reads_of_epochs(scenario, len(sizes))):
        kept = placement if preloaded or number else np.full_like(placement, NOWHERE)
        shared_ranks = _shared_ranks(system, kept, reads, sizes)
        for first in range(0, max(map(len, reads)), batch_size):
            end_s, batch_bytes = 0.0, []
            for rank, row in enumerate(reads):
                files = [int(file) for file in row[first : first + batch_size]]
                total = sum(int(sizes[file]) for file in files)
                batch_bytes.append(total)
                # The batch is loaded when all but what fits beside it is done.
                limit = read_bytes[rank][-1] + total - system.staging_buffer.capacity_bytes
                place = next(p for p, upto in enumerate(read_bytes[rank]) if upto >= limit)
                at_s = max(loaded_s[rank], ends_s[place])
                clock_s = ends_s[-1]
                for file in files:
                    fetch_s, source = _fetch(system, kept, rank, file, shared_ranks)
                    size = int(sizes[file])
                    sources[source] = sources.get(source, 0) + size
                    at_s += (fetch_s + preprocess_byte_s(system)) * size / threads
                    clock_s = max(clock_s, at_s) + size / system.compute_bytes_per_s
                loaded_s[rank] = at_s
                end_s = max(end_s, clock_s)
            ends_s.append(end_s)
            for rank, total in enumerate(batch_bytes):
                read_bytes[rank].append(read_bytes[rank][-1] + total)
        epoch_ends_s.append(ends_s[-1])
    return np.diff(epoch_ends_s), {name: size for name, size in sources.items() if size}


def _shared_ranks(system: Any, kept: Any, reads: Any, sizes: Any) -> float:
    """As many as read from shared storage, by the part of the time that this takes with so many."""
    groups: dict[Any, list[int]] = {}  # what is kept alike, seen from a rank: rank, file, bytes
    for rank, row in enumerate(reads):
        for file in map(int, row):
            own = kept[rank // system.ranks_per_node, file]
            key = (own, tuple(sorted(kept[:, file])))
            group = groups.setdefault(key, [rank, file, 0])
            group[2] += int(sizes[file])
    low, high = 1.0, float(system.ranks)
    for _ in range(40):
        middle = (low + high) / 2
        shared_s = total_s = 0.0
        for rank, file, size in groups.values():
            byte_s, source = _fetch(system, kept, rank, file, middle)
            shared_s += size * byte_s * (source == "shared")
            total_s += size * (byte_s + preprocess_byte_s(system))
        if system.ranks * shared_s / total_s > middle:
            low = middle
        else:
            high = middle
    return high


def _fetch(system: Any, kept: Any, rank: int, file: int, shared_ranks: float) -> tuple[float, Any]:
    """Seconds a byte, and the source; of equally fast ones the nearest."""
    node = rank // system.ranks_per_node
    readers = max(1, shared_ranks) * system.shared.readers_per_rank
    shared_rate = float(system.shared.rate(readers)) / readers
    found = [(1 / shared_rate, "shared")]
    for other in range(system.nodes):
        if kept[other, file] == NOWHERE:
            continue
        each = system.classes[kept[other, file]]
        rate = float(each.read(each.threads)) / each.threads
        if other != node:
            rate = min(rate, system.network_bytes_per_s)
        found.append((1 / rate, each.name if other == node else f"remote {each.name}"))
    nearness = {"shared": 2, **{each.name: 0 for each in system.classes}}
    return min(found, key=lambda pair: (pair[0], nearness.get(pair[1], 1)))
