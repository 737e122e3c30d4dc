"""fanstore status: shows the state of node daemons."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from fanstore.cli.jobs.job_options import chosen_job, job_options, local_directories
from fanstore.launch.report import came_lines, order_lines, read_line
from fanstore.messages.figures import DatasetFigures, MemoryFigures, OutputFigures
from fanstore.messages.job import DEAD, SERVING, AbsentRank, LeftJob, Status
from fanstore.messages.message import encode
from fanstore.wording import counted, show_bytes

if TYPE_CHECKING:
    from fanstore.job.jobs import FoundJob


@click.command()
@job_options
@click.option("--all", "show_all", is_flag=True, help="Show every job of this user, dead or alive.")
@click.option("--all-ranks", is_flag=True, help="Show every rank of the job, on all its nodes.")
@click.option("--json", "as_json", is_flag=True, help="As JSON; a list with --all.")
def command(
    job: str | None, local_dir: str | None, show_all: bool, all_ranks: bool, as_json: bool
) -> int:
    """Show a job: its datasets, what was read and from where, outputs, memory, damaged files.
    --json has every count. If several serve and none is named, all of them are shown; --json then
    needs --job or --all.

    With --all-ranks this node's daemon asks those of the other nodes; --json then gives an object
    whose `ranks` has an entry for each, with its `state`: serving, "not answering" or lost.

    The exit code is 1 when a job's daemon is dead, or a rank lost or silent, and 125 when there is
    no job; with --all it is 0.

    \b
    Example:
      fanstore status --all-ranks
    """
    from fanstore.errors import UsageError
    from fanstore.job.jobs import describe_job, find_jobs

    if all_ranks and show_all:
        raise UsageError("--all-ranks shows one job: name it with --job in place of --all")
    if all_ranks:
        return command_all_ranks(job, local_dir, as_json)
    jobs = find_jobs(*local_directories(local_dir)) if show_all else meant(job, local_dir, as_json)
    found = [describe_job(each) for each in jobs]
    if not found and not as_json:
        click.echo("no job here, alive or dead")
    if as_json:
        rows = [encode(each) for each in found]
        click.echo(json.dumps(rows if show_all else rows[0], indent=2))
    else:
        for each in found:
            show(each)
    dead = any(each.state != SERVING for each in found)
    return 1 if dead and not show_all else 0


def command_all_ranks(job: str | None, local_dir: str | None, as_json: bool) -> int:
    """Shows all ranks of one job."""
    from fanstore.job.jobs import describe_job, describe_ranks

    found = chosen_job(job, local_dir, any_rank=True)
    ranks: list[Status | AbsentRank | LeftJob] = [describe_job(found)]
    if isinstance(ranks[0], Status):  # only a living daemon can list the others
        ranks = [*describe_ranks(found)]
    if as_json:
        rows = [_row(rank) for rank in ranks]
        click.echo(json.dumps({"job_id": found.job_id, "ranks": rows}, indent=2))
    else:
        for rank in ranks:
            show_rank(rank, len(ranks))
    return 1 if any(rank.state != SERVING for rank in ranks) else 0


def _row(rank: Status | AbsentRank | LeftJob) -> dict[str, object]:
    """Returns the JSON object of a rank; that of a serving one begins with `rank` and `host`."""
    named = {"rank": rank.rank, "host": rank.host} if isinstance(rank, Status) else {}
    return {**named, **encode(rank)}


def show_rank(rank: Status | AbsentRank | LeftJob, world_size: int) -> None:
    """Prints one rank as text, also one that does not answer."""
    if not isinstance(rank, AbsentRank):
        show(rank)
        return
    silent = "" if rank.silent_s is None else f" for {rank.silent_s:,.0f} s"
    click.echo(f"rank {rank.rank} of {world_size} on {rank.host}: {rank.state}{silent}")


def meant(job: str | None, local_dir: str | None, only_one: bool) -> list[FoundJob]:
    """Returns the job that the options name, or all jobs that match. only_one: raises
    FanstoreError if several match."""
    from fanstore.errors import FanstoreError
    from fanstore.job.jobs import SeveralJobs

    try:
        return [chosen_job(job, local_dir)]
    except SeveralJobs as several:
        if only_one:
            raise FanstoreError(f"{several}, or list them with --all") from several
        return several.jobs


def show(job: Status | LeftJob) -> None:
    """Prints the state of one job, and the figures that matter most."""
    click.echo(f"job {job.job_id}: {job.state}{_rank(job)}{_since(job)}")
    if job.metrics:
        click.echo(f"  metrics at {job.metrics}")
    if job.state == DEAD:
        click.echo("  its daemon was killed; the next start removes what it left")
    if isinstance(job, LeftJob) and job.reason is not None:
        click.echo(f"  {job.reason}")
    for dataset in job.datasets:
        click.echo(f"  {dataset.name} at {dataset.mount_prefix}")
        click.echo(f"    {_placed(dataset)}")
        for name in dataset.damaged_files:
            click.echo(f"    damaged: {_printable(name)}")
        rest = dataset.damaged_count - len(dataset.damaged_files)
        if rest > 0:
            click.echo(f"    damaged: {rest:,} more")
    if isinstance(job, Status):
        _show_figures(job)
        return
    if job.outputs is not None and job.outputs.waiting and job.outputs.output_dir is not None:
        click.echo(f"  outputs to {_printable(job.outputs.output_dir)}")
        click.echo(f"  {_waiting(job.outputs.waiting, job.outputs.waiting_bytes or 0)}")


def _show_figures(job: Status) -> None:
    outputs = [] if job.outputs is None else outputs_lines(job.outputs)
    read = read_line([job], time.time() - job.started_s)
    for line in [read, *came_lines([job]), *order_lines([job]), *outputs]:
        click.echo(f"  {_printable(line)}")
    click.echo(f"  {_memory_line(job.memory)}")
    for rank in job.lost_ranks:
        click.echo(f"  lost: rank {rank} does not answer any more")


def _memory_line(memory: MemoryFigures) -> str:
    words = (
        ("block cache", memory.cache_bytes), ("staged", memory.staged_bytes),
        ("tables", memory.tables_bytes),
    )  # fmt: skip
    taken = [f"{word} {show_bytes(amount)}" for word, amount in words if amount]
    return f"memory: {', '.join(taken)}; {show_bytes(memory.limit_bytes)} may be taken"


def outputs_lines(outputs: OutputFigures) -> list[str]:
    """Returns lines about the outputs, and about those not staged out yet; none if there are no
    outputs."""
    if not outputs.published and not outputs.drafts and not outputs.waiting:
        return []
    lines = [
        f"outputs to {_printable(outputs.output_dir)}",
        f"  {outputs.published:,} published, {outputs.staged:,} staged out "
        f"({outputs.staged_bytes:,} bytes), {outputs.drafts:,} being written"
        + (f", {outputs.gone:,} replaced or removed since" if outputs.gone else ""),
    ]
    if outputs.waiting:
        lines.append(_waiting(outputs.waiting, outputs.waiting_bytes))
    if outputs.blocked:
        lines.append(f"  cannot be written now: {outputs.blocked}")
    return lines


def _waiting(count: int, amount_bytes: int) -> str:
    return f"  {count:,} waiting ({amount_bytes:,} bytes)"


def _rank(job: Status | LeftJob) -> str:
    several = (job.world_size or 1) > 1
    if not several:
        return ""
    host = f" on {job.host}" if job.host is not None else ""
    return f", rank {job.rank} of {job.world_size}{host}"


def _since(job: Status | LeftJob) -> str:
    if not isinstance(job, Status):
        return ""
    seconds = int(time.time() - job.started_s)
    return f", daemon {job.daemon_pid}, for {seconds:,} s"


def _placed(dataset: DatasetFigures) -> str:
    packs = counted(dataset.packs, "pack")
    if dataset.in_place:
        return f"{packs}, read in place from {dataset.directory}"
    parts = [f"{dataset.copied_packs} staged ({dataset.copied_bytes:,} bytes)"]
    if dataset.reused_packs:
        parts.append(f"{dataset.reused_packs} there already")
    if dataset.received_packs:
        parts.append(f"{dataset.received_packs} received from other ranks")
    if dataset.remote_packs:
        parts.append(f"{dataset.remote_packs} on other ranks only")
    return f"{packs}: {', '.join(parts)}"


def _printable(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
