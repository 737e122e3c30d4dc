"""Says in plain English what a simulation means for its job: what to run, and what to add."""

from __future__ import annotations

from statistics import median

from fanstore.study.machine import System
from fanstore.study.simulate.results import PolicyOutcome, Simulation, show_s
from fanstore.wording import show_bytes

# The bound, the job without FanStore, and the policies that a user can choose.
CHOICES = ("perfect", "naive", "staging-buffer", "close", "lru", "minio", "belady")

_NEAR = 1.05  # times that differ by less count as equal


def advice(system: System, simulation: Simulation) -> str:
    """Returns some sentences about the job; "" if the policies that they need are missing."""
    names = ("perfect", "naive", "staging-buffer", "belady")
    found = [simulation.policies.get(name) for name in names]
    best, plain, alone, ours = (each if isinstance(each, PolicyOutcome) else None for each in found)
    if best is None or alone is None:
        return ""
    least = f"of which it computes {show_s(best.total_s)}"
    if alone.total_s <= _NEAR * best.total_s:
        ahead = ""
        if plain is not None and plain.total_s > _NEAR * alone.total_s:
            ahead = f" if files are read ahead (without that, {show_s(plain.total_s)})"
        return (
            f"The shared file system is fast enough{ahead}: the job takes "
            f"{show_s(alone.total_s)}, {least}. Only faster computing shortens it."
        )
    if ours is None:
        return (
            f"The job takes {show_s(alone.total_s)}, {least}. {_slow_preparation(system)}"
            "Give the nodes memory or disks to keep files in."
        )
    saves = alone.total_s > _NEAR * ours.total_s
    first = "Run the job with FanStore" if saves else "FanStore gains little"
    times = f"{show_s(ours.total_s)} instead of {show_s(alone.total_s)} with reading ahead alone"
    return f"{first}: {times}, {least}. {_what_is_left(system, simulation, best, ours)}"


def _slow_preparation(system: System) -> str:
    prepared = system.staging_buffer.threads * system.preprocess_bytes_per_s
    if prepared >= system.compute_bytes_per_s:
        return ""
    return (
        f"Preparing samples takes longer than computing: the {system.staging_buffer.threads} "
        f"threads of a rank prepare {show_bytes(int(prepared))} a second, and it computes "
        f"{show_bytes(int(system.compute_bytes_per_s))}. Add threads (loader workers). "
    )


def _what_is_left(
    system: System, simulation: Simulation, best: PolicyOutcome, ours: PolicyOutcome
) -> str:
    """Returns what would make the job faster with FanStore."""
    if ours.total_s <= _NEAR * best.total_s:
        return "It then waits for almost nothing: more memory or faster storage gains nothing."
    slow = _slow_preparation(system)
    if slow:
        return slow.strip()
    if median(ours.epochs_s) <= _NEAR * median(best.epochs_s):
        return (
            f"Only the first epoch ({show_s(ours.first_epoch_s)}) waits for the shared file "
            "system. Later ones do not, so more memory gains nothing."
        )
    room = system.nodes * sum(each.capacity_bytes for each in system.classes)
    lacking = simulation.dataset_bytes - room
    if lacking > 0:
        return (
            f"All nodes together keep {room / simulation.dataset_bytes:.0%} of the dataset, and "
            "read the rest from the shared file system in each epoch. Add "
            f"{show_bytes(-(-lacking // system.nodes))} of memory or disk to each of the job's "
            f"nodes ({system.nodes}), or more nodes."
        )
    source = max(ours.source_bytes, key=lambda name: ours.source_bytes[name])
    return f"Every file is kept, but {source} is read too slowly. Add threads (loader workers)."
