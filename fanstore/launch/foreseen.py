"""Reports how much of the reading was predicted, and how much was prefetched (docs/orders.md)."""

from __future__ import annotations

from collections.abc import Sequence

from fanstore.messages.figures import OrderFigures
from fanstore.messages.job import Status
from fanstore.wording import counted, order_source, show_bytes


def order_lines(ranks: Sequence[Status]) -> list[str]:
    """Returns lines, from the status of some ranks, about the share of opens whose order was known
    and the bytes that were prefetched, or why the order was not known. Returns none if nothing was
    opened, or no program has loaders that could announce an order."""
    told = [rank.order for rank in ranks if rank.order is not None]
    opens = sum(rank.counters.opens for rank in ranks) if told else 0
    epochs = sum(each.epochs for each in told)
    if not opens:
        return []
    if epochs:
        return [_known(told, opens), *_brought(ranks)]
    reasons = [reason for each in told for reason in (*each.refused, *each.notes)]
    return [f"order of reading not known: {reason}" for reason in sorted(set(reasons))[:1]]


def _known(told: Sequence[OrderFigures], opens: int) -> str:
    predicted, broken = sum(each.predicted for each in told), sum(each.broken for each in told)
    names = {name for each in told for name in each.samplers}
    samplers = sorted(map(order_source, names))
    where = ", ".join(samplers) or "the file of --order"
    wrong = f", wrong in {counted(broken, 'epoch')}" if broken else ""
    share = f"{min(100, 100 * predicted / opens):.1f} %"
    return f"order of reading known for {share} of opens ({where}){wrong}"


def _brought(ranks: Sequence[Status]) -> list[str]:
    nodes = [rank.node for rank in ranks if rank.node is not None]
    blocks = sum(node.ahead for node in nodes)
    if not blocks:
        return []
    brought, late = sum(node.ahead_bytes for node in nodes), sum(node.ahead_late for node in nodes)
    unread = sum(node.ahead_unread_bytes for node in nodes)
    return [
        f"brought ahead: {show_bytes(brought)} in {counted(blocks, 'block')}, {late:,} of them "
        f"late; {show_bytes(unread)} were read by nobody"
    ]
