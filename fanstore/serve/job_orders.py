"""What is known beforehand of the order in which a job reads, for the node that prefetches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fanstore.serve.job_plan import JobPlan
from fanstore.serve.node import Node
from fanstore.serve.served import ServedDataset

if TYPE_CHECKING:
    from fanstore.serve.prefetch import Prefetch


def begin_prefetch(
    plan: JobPlan, served: Sequence[ServedDataset], node: Node, segment: str
) -> Prefetch | None:
    """Has the node bring what the file of `--order` says; None where there is none. Raises
    UsageError for a file with errors."""
    if not plan.order_file:
        return None
    from fanstore.serve.order_file import read_order  # with NumPy, which others do not need
    from fanstore.serve.prefetch import Prefetch

    mounts = [(item.prefix.path, item.dataset) for item in served]
    made = Prefetch(node, segment)
    for mount, epochs in read_order(plan.order_file, mounts).items():
        made.expect(f"file {mount}", epochs, f"file {plan.order_file}")
    return made
