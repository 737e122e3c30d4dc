"""Says how much of what was read was foreseen, and brought before (docs/orders.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fanstore.wording import counted, show_bytes

_NOT_OF_TORCH = {"plan": "the plan"}


def order_lines(ranks: Sequence[dict[str, Any]]) -> list[str]:
    """Returns, out of the status of some ranks, for which share of the opens the order was known
    and what was brought ahead, or why it was not known; nothing where nothing was opened, or no
    program has loaders that could tell."""
    told = [rank["order"] for rank in ranks if rank.get("order")]
    opens = sum(rank["counters"]["opens"] for rank in ranks) if told else 0
    epochs = sum(each["epochs"] for each in told)
    if not opens:
        return []
    if epochs:
        return [_known(told, opens), *_brought(ranks)]
    reasons = [reason for each in told for reason in (*each["refused"], *each["notes"])]
    return [f"order of reading not known: {reason}" for reason in sorted(set(reasons))[:1]]


def _known(told: Sequence[dict[str, Any]], opens: int) -> str:
    predicted, broken = (sum(each[name] for each in told) for name in ("predicted", "broken"))
    names = {name for each in told for name in each["samplers"]}
    samplers = sorted(_NOT_OF_TORCH.get(name, f"torch {name}") for name in names)
    where = ", ".join(samplers) or "the file of --order"
    wrong = f", wrong in {counted(broken, 'epoch')}" if broken else ""
    share = f"{min(100, 100 * predicted / opens):.1f} %"
    return f"order of reading known for {share} of opens ({where}){wrong}"


def _brought(ranks: Sequence[dict[str, Any]]) -> list[str]:
    blocks, brought, late, unread = (
        sum(rank["node"].get(name, 0) for rank in ranks)
        for name in ("ahead", "ahead_bytes", "ahead_late", "ahead_unread_bytes")
    )
    if not blocks:
        return []
    return [
        f"brought ahead: {show_bytes(brought)} in {counted(blocks, 'block')}, {late:,} of them "
        f"late; {show_bytes(unread)} were read by nobody"
    ]
