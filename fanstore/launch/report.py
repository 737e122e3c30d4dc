"""Prints the lines of FanStore on stderr before and after a command, and makes the report of a job
at its end in a separate process, which a signal can end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence

from fanstore.buckets.address import is_address
from fanstore.launcher import Launcher
from fanstore.messages.figures import NodeFigures, OrderFigures, OutputAccount
from fanstore.messages.job import (
    AskedReport,
    FinalStatus,
    JobDescription,
    JobSummary,
    Status,
    has_looked,
)
from fanstore.report.places import NO_PLOTS, can_draw
from fanstore.wording import (
    SOURCE_WORDS,
    counted,
    duration,
    lines_naming,
    order_source,
    show_bytes,
)

DAMAGED_SHOWN = 20

# Waits are reported if they took at least so many seconds and this part of the job's time.
_WAITED_LEAST_S, _WAITED_PART = 0.5, 0.02
# If a smaller part of the prefetched bytes came late or was not read, that is not reported.
_WORTH = 0.1
_MOSTLY = 0.9  # with a smaller share of predicted opens the report says why
# If daemons are asked more often than this for each opened file, files are read in parts, and not
# in sequence.
_ASKED_MAX = 2
_IN_PARTS = (
    "parts of large files were read in an order that the program makes by itself, without a loader"
)
_IN_NO_ORDER = (
    "no loader named these files, such as those that a sample draws while it is read; the "
    "program can announce them (fanstore.order)"
)

_speaker = "fanstore"


def set_rank(launcher: Launcher) -> None:
    """If there are several ranks, puts the rank's number into every line from now on."""
    global _speaker
    if launcher.world_size > 1:
        _speaker = f"fanstore[{launcher.rank}]"


def speaker() -> str:
    """Returns the word that begins every line: "fanstore", with the rank if there are several."""
    return _speaker


def say(text: str) -> None:
    """Prints one line on stderr, also if a name in it is not UTF-8."""
    safe = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    sys.stderr.write(f"{_speaker}: {safe}\n")
    sys.stderr.flush()


def damage_lines(job: JobDescription) -> list[str]:
    """Returns lines with the names of damaged files in a job's datasets: the first DAMAGED_SHOWN,
    and the number of the others."""
    lines = []
    for dataset in job.datasets:
        names = dataset.damaged_files[:DAMAGED_SHOWN]
        where = dataset.mount_prefix
        lines += [f"damaged: {where}/{name}" for name in names]
        rest = dataset.damaged_count - len(names)
        if rest > 0:
            lines.append(f"damaged: {rest} more under {where}; see fanstore verify")
    return lines


def rank_lines(summary: JobSummary) -> list[str]:
    """Returns a line with the lost ranks. Their packs were read elsewhere, or not at all."""
    return [f"lost: rank {rank} did not answer any more" for rank in summary.lost_ranks]


def raw_call_lines(summary: JobSummary) -> list[str]:
    """Returns lines with the programs and libraries whose own system calls bypassed FanStore on
    this node."""
    return [
        f"{path} makes system calls by itself, which could not be redirected here: if it opened "
        "or saved files under the mount, these went past FanStore, and it needs --trap"
        for path in summary.raw_calls
    ]


def removed_lines(summary: JobSummary) -> list[str]:
    """Returns a line with the files of the job's directory that other programs removed while the
    job ran."""
    names = ", ".join(summary.removed)
    return [
        f"removed from {summary.job_directory} while the job ran, by somebody else: {names}; "
        "programs that needed it failed. A cleaner of the local disk? Use another --local-dir"
    ] if names else []  # fmt: skip


def warning_lines(summary: JobSummary) -> list[str]:
    """Returns the lines at a job's end that are printed even with --quiet."""
    return [
        *rank_lines(summary), *raw_call_lines(summary), *problem_lines(summary),
        *summary.warnings, *summary.trace_lines,
    ]  # fmt: skip


def summary_lines(summary: JobSummary) -> list[str]:
    """Returns lines about what a job has served: on rank 0 for all ranks, if their status is known;
    otherwise for this rank."""
    if summary.any_looked is not None and summary.rank > 0:
        return []
    ranks = summary.all_ranks()
    took_s = max(rank.served_s for rank in ranks)
    return [
        read_line(ranks, took_s), *_waited_lines(ranks, took_s), *_output_line(ranks),
        *_refused_line(ranks), *came_lines(ranks), *order_lines(ranks),
    ]  # fmt: skip


def unseen_lines(summary: JobSummary, entered: int) -> list[str]:
    """Returns a hint if the command of this rank, or the commands of all ranks, read nothing from
    any mount. entered: how many programs had loaded the library before the command started."""
    if summary.any_looked or any(has_looked(rank) for rank in summary.all_ranks()):
        return []
    where = " or ".join(dataset.mount_prefix for dataset in summary.datasets)
    if summary.processes == entered:
        return [
            f"hint: no program of the command loaded the library, so none of them saw {where}; "
            "static programs and those for another libc need --trap, and a container has to show "
            "FanStore's own files (docs/limitations.md)"
        ]
    if summary.any_looked is not None and summary.rank > 0:
        return []
    return [
        f"hint: the command read nothing from {where}: give it that path, or {{}} in its place (a "
        "symbolic link to it may lead past FanStore); if it has it, `fanstore doctor --check "
        "PROGRAM` says whether FanStore can serve that program"
    ]


def went_wrong(summary: JobSummary) -> bool:
    """Returns whether the job lost something: an output of this rank or of a lost one is missing in
    the output directory, or files that programs needed were removed."""
    outputs = summary.outputs
    if summary.removed or outputs is None:
        return bool(summary.removed)
    missed = outputs.unplaced_count or outputs.lost_count or outputs.failed or outputs.unfinished
    return bool(missed)


def problem_lines(summary: JobSummary) -> list[str]:
    """Returns lines with the outputs that are not in the output directory, and with removed files
    that programs needed."""
    return removed_lines(summary) + (
        [] if summary.outputs is None else _output_problem_lines(summary.outputs)
    )


def _output_problem_lines(outputs: OutputAccount) -> list[str]:
    where = outputs.output_dir
    lines = [f"outputs: {outputs.failed}"] if outputs.failed else []
    unplaced = [f"{name}: {reason}" for name, reason in outputs.unplaced]
    lines += lines_naming(f"not in {where}", unplaced, outputs.unplaced_count)
    unfinished = outputs.unfinished
    lines += lines_naming("still being written, not published", unfinished, len(unfinished))
    if outputs.kept:
        lines.append(f"kept on this node instead: {outputs.kept}")
    lines += lines_naming(
        f"in {where}, but not finished when its writer was killed",
        outputs.partials, outputs.partial_count,
    )  # fmt: skip
    lines += lines_naming("outputs lost, because their rank died", outputs.lost, outputs.lost_count)
    return lines + lines_naming(
        f"an older file of the same name was in {where}, and is now called",
        outputs.backups,
        outputs.backup_count,
    )


def _output_line(ranks: Sequence[FinalStatus]) -> list[str]:
    """Returns a line about the outputs of all ranks, or none if there are none."""
    of_ranks = [rank.outputs for rank in ranks if rank.outputs is not None]
    published = sum(each.published for each in of_ranks)
    if not published:
        return []
    staged, gone = sum(each.staged for each in of_ranks), sum(each.gone for each in of_ranks)
    staged_bytes = sum(each.staged_bytes for each in of_ranks)
    missing = published - staged - gone
    line = f"outputs: {counted(staged, 'file')} in {of_ranks[0].output_dir} "
    return [f"{line}({show_bytes(staged_bytes)})" + (f", {missing:,} not placed" * bool(missing))]


def _refused_line(ranks: Sequence[FinalStatus]) -> list[str]:
    """Returns a line about the refused changes of inputs, or none if there were none."""
    count = sum(rank.counters.refused_writes for rank in ranks)
    first = next((rank.first_refused for rank in ranks if rank.first_refused), "")
    return [
        f"{counted(count, 'attempt')} to change files of the dataset failed"
        + f", for example of {first}" * bool(first)
        + ": they are read-only; write under another name"
    ] * bool(count)


def _nodes(ranks: Iterable[Status]) -> list[NodeFigures]:
    return [rank.node for rank in ranks if rank.node is not None]


def read_line(ranks: Sequence[Status], took_s: float) -> str:
    """Returns a line about what programs opened and read. took_s: how long the job has served."""
    where = f"{len(ranks)} ranks: " if len(ranks) > 1 else ""
    mapped_bytes = sum(rank.counters.mapped_bytes for rank in ranks)
    read_bytes = sum(rank.counters.read_bytes for rank in ranks)
    errors = sum(rank.counters.errors for rank in ranks)
    damaged = sum(dataset.damaged_count for dataset in ranks[0].datasets)
    return (
        f"{where}{counted(sum(rank.counters.opens for rank in ranks), 'file')} opened, "
        f"{show_bytes(read_bytes)} read"
        + (f", {show_bytes(mapped_bytes)} mapped" * bool(mapped_bytes))
        + (f", {counted(errors, 'error')}" * bool(errors))
        + (f", {counted(damaged, 'damaged file')}" * bool(damaged))
        + f" in a job of {duration(took_s)}"
    )


def _waited_lines(ranks: Sequence[FinalStatus], took_s: float) -> list[str]:
    """Returns a line about the waits of programs, with the option that would have avoided most of
    them; no line if the waits were short."""
    waited_s: dict[str, float] = {}
    for rank in ranks:
        for source, seconds in rank.waited_s.items():
            waited_s[source] = waited_s.get(source, 0.0) + seconds
    total_s = sum(waited_s.values())
    if total_s < max(_WAITED_LEAST_S, _WAITED_PART * took_s):
        return []
    most = max(waited_s, key=lambda source: waited_s[source])
    shares = sorted(waited_s.items(), key=lambda each: -each[1])
    words = {**SOURCE_WORDS, "shared": _shared_words(ranks)}
    named = [f"{duration(s)} for {words[n]}" for n, s in shares if s >= 0.1 * total_s]
    line = f"programs waited {duration(total_s)}, all threads together: {', '.join(named)}"
    remedy = _remedy(most, ranks)
    return [f"{line}; {remedy}" if remedy else line]


def _remedy(source: str, ranks: Sequence[FinalStatus]) -> str:
    """Returns the option that avoids waits for a source, or "" if there is none."""
    datasets = ranks[0].datasets
    if source == "rank" and (replicas := min(each.replicas for each in datasets)) < len(ranks):
        return f"--replicas {replicas + 1} would keep more of the files on their own node"
    if source == "shared" and any(each.in_place for each in datasets):
        return "without --in-place the packs would be copied to the local disk"
    if source == "shared" and _shared_bytes(ranks) <= sum(n.kept_bytes for n in _nodes(ranks)):
        return ""  # each byte was read once and kept: there is nothing to spare
    return {
        "disk": "a faster --local-dir, or --stage memory where there is room, would help",
        "cache": "a larger --cache-bytes would keep more",
        "shared": "--local-bytes and --memory-bytes with more room would keep more near",
    }.get(source, "")


def _shared_bytes(ranks: Sequence[Status]) -> int:
    """Returns how many bytes daemons, and programs by themselves, have read from the shared file
    system since it was staged."""
    by_daemons = sum(node.shared_bytes for node in _nodes(ranks))
    return by_daemons + sum(rank.counters.shared_bytes for rank in ranks)


def _shared_words(ranks: Sequence[Status]) -> str:
    """Returns the name of the place that all ranks read from."""
    are_there = [is_address(dataset.directory) for dataset in ranks[0].datasets]
    if not any(are_there):
        return SOURCE_WORDS["shared"]
    return "the bucket" if all(are_there) else f"{SOURCE_WORDS['shared']} and the bucket"


def _requests_words(ranks: Sequence[Status]) -> str:
    """Returns a phrase with the requests to buckets; "" if no dataset is in one."""
    told = [rank.buckets for rank in ranks if rank.buckets is not None]
    failed = sum(each.failed for each in told)
    return (
        f" with {counted(sum(each.requests for each in told), 'request')}"
        + f" ({failed:,} failed)" * bool(failed)
    ) * bool(told)


def came_lines(ranks: Sequence[Status]) -> list[str]:
    """Returns a line about the bytes that came from elsewhere than this node's disk; none if all of
    them were staged, in a job of one rank."""
    if ranks[0].world_size == 1 and not _shared_bytes(ranks):
        return []
    staged_bytes = sum(each.shared_bytes for rank in ranks for each in rank.datasets)
    fetched_bytes = sum(node.fetched_bytes for node in _nodes(ranks))
    return [
        f"{show_bytes(staged_bytes)} staged at the start, " * bool(staged_bytes)
        + f"{show_bytes(_shared_bytes(ranks))} read later from {_shared_words(ranks)}"
        + _requests_words(ranks)
        + f", {show_bytes(fetched_bytes)} fetched from other ranks" * (ranks[0].world_size > 1)
    ]


def order_lines(ranks: Sequence[Status]) -> list[str]:
    """Returns lines about the share of opens that were predicted and the bytes that were
    prefetched, or about why the order was unknown. ranks: their status. Returns none if nothing was
    opened, or if no program has a loader that could announce an order."""
    told = [rank.order for rank in ranks if rank.order is not None]
    opens = sum(rank.counters.opens for rank in ranks) if told else 0
    opens += sum(each.pieces for each in told)  # each counts as an open
    epochs = sum(each.epochs for each in told)
    if not opens:
        return []
    lines = [*_known(told, opens), *_brought(ranks)] if epochs else []
    if sum(each.predicted for each in told) < _MOSTLY * opens:
        reasons = {reason for each in told for reason in (*each.refused, *each.notes)}
        partly = any("order of reading" in line for line in lines)
        has_loader = any(each.samplers.keys() - {"recorded"} for each in told)
        if partly and not reasons and has_loader:
            reasons = {_IN_NO_ORDER}
        if not reasons and sum(r.counters.cache_misses for r in ranks) > _ASKED_MAX * opens:
            reasons = {_IN_PARTS}
        rest = " for the others" * partly
        lines += [f"order of reading not known{rest}: {why}" for why in sorted(reasons)[:1]]
    return lines


def _known(told: Sequence[OrderFigures], opens: int) -> list[str]:
    """Returns a line about the predicted opens; none if nothing was predicted, because nobody can
    do anything about that."""
    predicted, broken = sum(each.predicted for each in told), sum(each.broken for each in told)
    names = {name for each in told for name in each.samplers}
    samplers = sorted(map(order_source, names))
    where = ", ".join(samplers) or "the file of --order"
    wrong = f", wrong in {counted(broken, 'epoch')}" if broken else ""
    share = min(100, 100 * predicted / opens)
    return [f"order of reading known for {share:.1f} % of opens ({where}){wrong}"] * (share >= 0.05)


def _brought(ranks: Sequence[Status]) -> list[str]:
    nodes = [rank.node for rank in ranks if rank.node is not None]
    blocks = sum(node.ahead for node in nodes)
    if not blocks:
        return []
    brought, late = sum(node.ahead_bytes for node in nodes), sum(node.ahead_late for node in nodes)
    unread = sum(node.ahead_unread_bytes for node in nodes)
    line = f"brought ahead: {show_bytes(brought)} in {counted(blocks, 'block')}"
    if late > _WORTH * blocks:
        line += f", {late:,} of them late: a larger --cache-bytes gives more time"
    if unread > _WORTH * brought:
        line += f", {show_bytes(unread)} never read: --order off would spare them"
    return [line]


def tell_missing_plots(page: str) -> None:
    """Warns at the start, and not after hours, that a report will have no page because matplotlib
    is missing."""
    if page and not can_draw():
        say(f"report: {NO_PLOTS}; there will be only JSON")


def start_report(summary: JobSummary) -> subprocess.Popen[bytes] | None:
    """Starts a process that makes the report, if the user asked for one, on rank 0; otherwise
    returns None."""
    asked = summary.report
    if asked is None or summary.rank > 0:
        return None
    command = [sys.executable, "-m", "fanstore", "report", asked.trace, "--out", asked.page]
    said = None if can_draw() else subprocess.DEVNULL  # the reason was told at the start
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said
    )


def tell_report(asked: AskedReport | None, code: int, quiet: bool) -> None:
    """Prints whether the report was made. code: the exit code of the process that made it."""
    if asked is None:
        return
    page, trace = asked.page, asked.trace
    figures = os.path.splitext(page)[0] + ".json"
    without = not can_draw() and os.path.exists(figures)
    if code == 0 or without:
        if not quiet:
            say(
                f"report: {figures}, and no page without matplotlib"
                if without
                else f"report: {page}"
            )
    elif code < 0 or not os.path.exists(trace):
        say(f"report: none was made of {trace}")
    else:
        say(f"report: not made; `fanstore report {trace}` tries again")
