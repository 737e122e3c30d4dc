"""Makes the lines that FanStore says on stderr around a command."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from fanstore.launch.foreseen import order_lines
from fanstore.launcher import Launcher
from fanstore.messages import has_looked
from fanstore.wording import counted, lines_naming, show_bytes

DAMAGED_SHOWN = 20

_speaker = "fanstore"


def set_rank(launcher: Launcher) -> None:
    """Names the rank in every line from now on, where there are several."""
    global _speaker
    if launcher.world_size > 1:
        _speaker = f"fanstore[{launcher.rank}]"


def speaker() -> str:
    """Returns the name that begins every line: "fanstore", with the rank where there are
    several."""
    return _speaker


def say(text: str) -> None:
    """Prints one line on stderr, whatever bytes names in it hold."""
    safe = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    sys.stderr.write(f"{_speaker}: {safe}\n")
    sys.stderr.flush()


def damage_lines(job: dict[str, Any]) -> list[str]:
    """Names the damaged files of a job's datasets; beyond DAMAGED_SHOWN it counts them."""
    lines = []
    for dataset in job["datasets"]:
        names = dataset["damaged_files"]
        where = dataset["mount_prefix"]
        lines += [f"damaged: {where}/{name}" for name in names[:DAMAGED_SHOWN]]
        rest = dataset["damaged_count"] - len(names[:DAMAGED_SHOWN])
        if rest > 0:
            lines.append(f"damaged: {rest} more under {where}; see fanstore verify")
    return lines


def rank_lines(summary: dict[str, Any]) -> list[str]:
    """Names the ranks that were lost; packs of theirs were read elsewhere, or not at all."""
    lost = summary["lost_ranks"]
    return [f"lost: rank {rank} did not answer any more" for rank in lost]


def raw_call_lines(summary: dict[str, Any]) -> list[str]:
    """Names programs and libraries whose own system calls went past FanStore on this node."""
    return [
        f"{path} makes system calls by itself, which could not be redirected here: if it opened "
        "or saved files under the mount, these went past FanStore, and it needs --trap"
        for path in summary["raw_calls"]
    ]


def removed_lines(summary: dict[str, Any]) -> list[str]:
    """Names what somebody else removed of the job's directory while the job ran."""
    names = ", ".join(summary.get("removed", []))
    return [
        f"removed from {summary['job_directory']} while the job ran, by somebody else: {names}; "
        "programs that needed it failed. A cleaner of the local disk? Use another --local-dir"
    ] if names else []  # fmt: skip


def warning_lines(summary: dict[str, Any]) -> list[str]:
    """Returns what is said of a job's end even with --quiet."""
    return [
        *rank_lines(summary), *raw_call_lines(summary), *problem_lines(summary),
        *summary["warnings"], *summary.get("trace_lines", []),
    ]  # fmt: skip


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """Says what a job has served: on rank 0 all ranks, where all are there; else this one."""
    ranks = summary.get("ranks", [summary])
    if "any_looked" in summary and summary["rank"] > 0:
        return []
    lines = [_read_line(ranks)]
    lines += _output_line(ranks)
    if summary["world_size"] > 1 and _total(ranks, "node", "fetches"):
        lines.append(_remote_line(ranks))
    if summary["world_size"] > 1 or _shared_bytes(ranks):
        lines.append(_staged_line(ranks))
    return lines + order_lines(ranks)


def unseen_lines(summary: dict[str, Any], entered: int) -> list[str]:
    """Returns a hint where the command of this rank, or of all, looked at nothing in any mount.
    entered: into how many programs the library had come before it started."""
    ranks = summary.get("ranks", [summary])
    if summary.get("any_looked") or any(has_looked(rank) for rank in ranks):
        return []
    where = " or ".join(dataset["mount_prefix"] for dataset in summary["datasets"])
    if summary["processes"] == entered:
        return [
            f"hint: the library came into no program of the command, which saw nothing of {where}; "
            "static programs and those for another libc need --trap, and a container has to show "
            "FanStore's own files (docs/limitations.md)"
        ]
    if "any_looked" in summary and summary["rank"] > 0:
        return []
    return [
        f"hint: the command opened nothing in {where}; if it should have: was it given that path, "
        "and does the program that reads see it (fanstore doctor --check PROGRAM)?"
    ]


def went_wrong(summary: dict[str, Any]) -> bool:
    """Tells whether an output of this rank, or of one that was lost, is not in the output
    directory, or programs missed what somebody removed."""
    outputs = summary["outputs"]
    missed = ("unplaced_count", "lost_count", "failed", "unfinished")
    return any(outputs.get(name) for name in missed) or bool(summary.get("removed"))


def problem_lines(summary: dict[str, Any]) -> list[str]:
    """Names the outputs that are not where they ought to be, and what the job missed."""
    outputs = summary["outputs"]
    where = outputs.get("output_dir", "")
    lines = removed_lines(summary)
    lines += [f"outputs: {outputs['failed']}"] if outputs.get("failed") else []
    unplaced = [f"{name}: {reason}" for name, reason in outputs.get("unplaced", [])]
    lines += lines_naming(f"not in {where}", unplaced, outputs.get("unplaced_count", 0))
    unfinished = outputs.get("unfinished", [])
    lines += lines_naming("still being written, not published", unfinished, len(unfinished))
    if outputs.get("kept"):
        lines.append(f"kept on this node instead: {outputs['kept']}")
    lines += lines_naming(
        f"in {where}, but not finished when its writer was killed",
        outputs.get("partials", []), outputs.get("partial_count", 0),
    )  # fmt: skip
    lost = outputs.get("lost", [])
    lines += lines_naming("lost with its rank, output", lost, outputs.get("lost_count", 0))
    backups = outputs.get("backups", [])
    return lines + lines_naming(
        f"was in {where} already, kept as", backups, outputs.get("backup_count", 0)
    )


def _output_line(ranks: list[dict[str, Any]]) -> list[str]:
    """Sums up the outputs of all ranks so that the numbers add up; says nothing where nothing was
    written."""
    if not any(rank["outputs"].get("published") for rank in ranks):
        return []
    published, staged, staged_bytes, gone = (
        _total(ranks, "outputs", name) for name in ("published", "staged", "staged_bytes", "gone")
    )
    missing = published - staged - gone
    line = f"outputs: {published:,} published, {staged:,} staged out to "
    line += f"{ranks[0]['outputs']['output_dir']} ({show_bytes(staged_bytes)})"
    line += f", {missing:,} not placed" if missing else ""
    return [line + (f", {gone:,} replaced or removed by the job" if gone else "")]


def _total(ranks: Iterable[dict[str, Any]], section: str, name: str) -> int:
    return sum(rank[section][name] for rank in ranks)


def _read_line(ranks: list[dict[str, Any]]) -> str:
    damaged = sum(d["damaged_count"] for d in ranks[0]["datasets"])
    where = f"{len(ranks)} ranks: " if len(ranks) > 1 else ""
    mapped_bytes = _total(ranks, "counters", "mapped_bytes")
    mapped = f"{show_bytes(mapped_bytes)} mapped, " if mapped_bytes else ""
    return (
        f"{where}{counted(_total(ranks, 'counters', 'opens'), 'file')} opened, "
        f"{show_bytes(_total(ranks, 'counters', 'read_bytes'))} read, {mapped}"
        f"{counted(_total(ranks, 'counters', 'errors'), 'error')}, "
        f"{counted(damaged, 'damaged file')}"
    )


def _remote_line(ranks: list[dict[str, Any]]) -> str:
    hits, misses = (_total(ranks, "counters", f"cache_{kind}") for kind in ("hits", "misses"))
    bins = [sum(column) for column in zip(*(r["node"]["latency_bins"] for r in ranks), strict=True)]
    waits = f"{latency(bins, 0.5)} median, {latency(bins, 0.99)} at 99 %" if any(bins) else ""
    return (
        f"remote: {show_bytes(_total(ranks, 'node', 'fetched_bytes'))} fetched from other ranks in "
        f"{_total(ranks, 'node', 'fetches'):,} requests ({waits or 'nobody waited'}), "
        f"{hits:,} blocks found in the cache, {misses:,} not"
    )


def _shared_bytes(ranks: list[dict[str, Any]]) -> int:
    """Returns the bytes that commands wanted of the shared file system, whoever read them."""
    by_daemons = sum(int(rank["node"].get("shared_bytes", 0)) for rank in ranks)
    return by_daemons + _total(ranks, "counters", "shared_bytes")


def _staged_line(ranks: list[dict[str, Any]]) -> str:
    def total(name: str) -> int:
        return sum(dataset[name] for rank in ranks for dataset in rank["datasets"])

    line = f"shared file system: {show_bytes(total('shared_bytes'))} read to stage, "
    line += f"{show_bytes(_shared_bytes(ranks))} read for commands"
    if ranks[0]["world_size"] == 1:
        return line
    return line + f"; {show_bytes(total('received_bytes'))} of replicas came from other ranks"


def latency(bins: list[int], share: float) -> str:
    """Returns the upper edge of the bin in which `share` of all lie; bins: powers of two of us."""
    wanted, seen = share * sum(bins), 0
    for power, count in enumerate(bins):
        seen += count
        if count and seen >= wanted:
            edge_us = 2 << power
            return f"under {edge_us} us" if edge_us < 10000 else f"under {edge_us // 1000} ms"
    return "none"
