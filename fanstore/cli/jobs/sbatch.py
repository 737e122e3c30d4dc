"""fanstore sbatch: prints a job script for Slurm."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from fanstore import config
from fanstore.cli.dataset_options import ServingCommand, pair_mounts, serving_options
from fanstore.launcher import NO_MPI4PY

# Options of sbatch itself that have a name of their own here.
_LIMITS = ("job_name", "partition", "account", "gpus_per_node", "mem", "output")
GIVEN = "fanstore.given"  # the options as they were written


class SbatchCommand(ServingCommand):
    """A command that remembers its options as they were written."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        raw, _, order = self.parsed(ctx, args)
        ctx.meta[GIVEN] = list(as_written(raw, order))
        return super().parse_args(ctx, args)


def as_written(
    raw: Mapping[str, Any], order: Sequence[click.Parameter]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(parameter, words) of each option in the order given; of a repeated value the last."""
    several = {p.name: iter(raw[p.name]) for p in order if p.name and p.multiple}
    done = set()
    for parameter in order:
        name = parameter.name
        if not isinstance(parameter, click.Option) or name is None or name in done:
            continue
        if name in several:
            yield name, (parameter.opts[-1], next(several[name]))
            continue
        done.add(name)
        if parameter.is_flag:
            yield name, ((parameter.opts if raw[name] else parameter.secondary_opts)[-1],)
        else:
            yield name, (parameter.opts[-1], raw[name])


def serving_words(ctx: click.Context, serving: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Returns the options for `fanstore run` or `start`, checked as far as this machine can. The
    local directory is not among them: the script names it, on each node."""
    given = [(name, words) for name, words in ctx.meta[GIVEN] if name in serving]
    order = [name for name, _ in given if name in ("dataset", "mount")]
    pair_mounts(order, serving["dataset"], serving["mount"])
    config.resolve(serving)
    return tuple(words for name, words in given if name != "local_dir")


def say_what_is_missing(datasets: Sequence[str], nodes: int) -> None:
    """Warns of what would end the job at its start, as far as this machine tells; its nodes may
    have what is missing here."""
    from fanstore.dataset import open_dataset
    from fanstore.errors import FanstoreError

    problems = []
    for dataset in datasets:
        try:
            open_dataset(dataset).close()
        except (FanstoreError, OSError) as error:
            problems.append(str(error))
    if nodes > 1 and find_spec("mpi4py") is None:
        problems.append(NO_MPI4PY)
    for problem in problems:
        print(f"fanstore: warning: on this machine the job would fail: {problem}", file=sys.stderr)


def our_program() -> str:
    """The console script of this installation, else the one on PATH."""
    installed = os.path.join(sysconfig.get_path("scripts"), "fanstore")
    return installed if os.access(installed, os.X_OK) else shutil.which("fanstore") or "fanstore"


@click.command(
    cls=SbatchCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Print a job script for Slurm.",
)
@click.option("-N", "--nodes", type=click.IntRange(min=1), required=True, help="Nodes.")
@click.option(
    "--mode",
    type=click.Choice(["run", "mpi"]),
    default="run",
    show_default=True,
    help="run: CMD once on each node. mpi: CMD as MPI ranks of its own beside the daemons.",
)
@click.option(
    "--ntasks-per-node",
    type=click.IntRange(min=1),
    help="With --mode mpi: ranks of CMD on each node [default: 1].",
)
@click.option(
    "--site",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file that describes the cluster.",
)
@click.option("--time", metavar="LIMIT", help="Time limit, as sbatch takes it.")
@click.option("--cpus-per-task", type=click.IntRange(min=1), help="CPUs of each task.")
@click.option("--job-name", metavar="NAME", help="For sbatch.")
@click.option("--partition", metavar="NAME", help="For sbatch.")
@click.option("--account", metavar="NAME", help="For sbatch.")
@click.option("--gpus-per-node", metavar="GPUS", help="For sbatch.")
@click.option("--mem", metavar="SIZE", help="For sbatch: memory of each node.")
@click.option("--output", metavar="FILE", help="For sbatch.")
@click.option(
    "--sbatch",
    "more",
    multiple=True,
    metavar="OPTION",
    help="Any other option of sbatch: --name=value.",
)
@click.option("--trap", is_flag=True, help="Serve programs that no library can enter, too.")
@click.option("--analyze", is_flag=True, help="Have `fanstore analyze` run CMD, on all nodes.")
@serving_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    nodes: int,
    mode: str,
    ntasks_per_node: int | None,
    site: Path | None,
    time: str | None,
    cpus_per_task: int | None,
    more: tuple[str, ...],
    trap: bool,
    analyze: bool,
    command: tuple[str, ...],
    **others: Any,
) -> None:
    """Print a job script for Slurm that runs CMD under FanStore on N nodes.

    The script is complete and commented: read it, change it, give it to sbatch. Options from
    --dataset on are those of `fanstore run`. In --local-dir, $NAMES are expanded on each node.
    """
    from fanstore.launch import sbatch

    if mode == "run" and ntasks_per_node is not None:
        raise click.UsageError("--ntasks-per-node is for --mode mpi", ctx)
    if mode == "mpi" and nodes == 1:
        hint = "on one node run the launcher itself: --mode run ... -- mpiexec -n RANKS CMD"
        raise click.UsageError(f"--mode mpi is for several nodes; {hint}", ctx)
    if analyze and (mode == "mpi" or trap):
        other = "--mode mpi" if mode == "mpi" else "--trap"
        raise click.UsageError(f"--analyze starts CMD once on each node, without {other}", ctx)
    limits = {name: others.pop(name) for name in _LIMITS}
    job = sbatch.Job(
        nodes=nodes,
        command=command,
        options=serving_words(ctx, others),
        trap=trap,
        analyze=analyze,
        fanstore=our_program(),
        mode=mode,
        tasks_per_node=ntasks_per_node or 1,
        local_dir=others["local_dir"],
        time=time,
        cpus_per_task=cpus_per_task,
        limits={n.replace("_", "-"): value for n, value in limits.items() if value is not None},
        sbatch=more,
    )
    described = sbatch.load_site(site) if site else sbatch.Site()
    say_what_is_missing(others["dataset"], nodes)
    sys.stdout.buffer.write(os.fsencode(sbatch.render(job, described)))
