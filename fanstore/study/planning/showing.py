"""Shows a plan to people, and the samples that one node fetches."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from fanstore.plan.description import PlanDescription
from fanstore.plan.planfile import PlanFile, fetches, filling
from fanstore.policy.placement.rules import NOWHERE
from fanstore.study.simulate.results import show_s
from fanstore.wording import counted, show_bytes


def lines_of(told: PlanDescription) -> list[str]:
    """Returns lines about the files that nodes keep under a plan, and the expected times."""
    system, job = told.system, told.job
    order = " ".join(f"{key}={value}" for key, value in job.order_parameters.items())
    return [
        f"dataset {told.dataset_id}: {counted(told.files, 'file')} below {told.under}, "
        f"{show_bytes(told.total_bytes)}",
        f"{counted(system.nodes, 'node')} of {counted(system.ranks_per_node, 'rank')}, "
        f"{counted(job.epochs, 'epoch')}, batches of {job.batch_size} a rank, "
        f"order {f'{job.order} {order}'.strip()}",
        *_kept(told),
        *_expected(told),
    ]


def _kept(told: PlanDescription) -> Iterator[str]:
    for number, each in enumerate(told.system.classes):
        files = [row[number] for row in told.kept_files]
        room = [row[number] for row in told.kept_bytes]
        yield (
            f"kept in {each.name}: {min(files):,} to {max(files):,} files a node, up to "
            f"{show_bytes(max(room))} of {show_bytes(each.capacity_bytes)}"
        )


def _expected(told: PlanDescription) -> Iterator[str]:
    expected = told.expected
    total_s, read = sum(expected.epochs_s), max(1, sum(expected.source_bytes.values()))
    sources = [
        f"{name} {show_bytes(count)} ({100 * count / read:.1f} %)"
        for name, count in expected.source_bytes.items()
        if count
    ]
    yield (
        f"expected: first epoch {show_s(expected.epochs_s[0])}, median "
        f"{show_s(median(expected.epochs_s))} ({show_s(expected.lower_bound_s)} or more), total "
        f"{show_s(total_s)}"
    )
    stall = 100 * expected.stall_s / total_s if total_s else 0.0
    yield f"expected stall: {show_s(expected.stall_s)}, {stall:.1f} % of the total"
    yield f"expected memory of the node that needs most: {show_bytes(expected.memory_max_bytes)}"
    yield f"expected to be loaded from: {', '.join(sources) or 'nowhere'}"


def as_dict(told: PlanDescription) -> dict[str, Any]:
    """Returns the content of a plan's description for JSON, with each epoch and node."""
    expected = told.expected
    return {
        "dataset_id": told.dataset_id,
        "under": told.under,
        "files": told.files,
        "bytes": told.total_bytes,
        "system": told.system_table,
        "job": told.job_table,
        "kept_files": told.kept_files,
        "kept_bytes": told.kept_bytes,
        "epochs_s": expected.epochs_s,
        "total_s": sum(expected.epochs_s),
        "stall_s": expected.stall_s,
        "lower_bound_epoch_s": expected.lower_bound_s,
        "source_bytes": expected.source_bytes,
        "memory_max_bytes": expected.memory_max_bytes,
    }


def fetched_by(plan: PlanFile, node: int, epoch: int | None) -> Any:
    """Returns the samples that a node is to keep, in the order in which it gets them; with `epoch`,
    those that it fetches ahead in that epoch. Raises the errors of PlanFile's methods."""
    kept = plan.kept(node) != NOWHERE
    if epoch is None:
        return filling(kept, plan.node_reads(node, 0))
    reads = plan.node_reads(node, epoch)
    return fetches(kept, reads) if epoch else reads
