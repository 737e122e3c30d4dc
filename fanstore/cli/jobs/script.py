"""fanstore script: prints a job script for a scheduler, or for none."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fanstore.cli.command import command_argument
from fanstore.cli.dataset_options import ServingCommand, serving_options, written_options
from fanstore.cli.datasets.prepare import ByteCount
from fanstore.cli.jobs.container_option import trap_option
from fanstore.launch.job_script import SCHEDULERS
from fanstore.launcher import NO_MPI4PY

_QUEUED = ("slurm", "pbs", "lsf")
# The schedulers that an option is for, by its parameter; others are for all.
_FOR = {
    **dict.fromkeys(("mode", "ntasks_per_node", "analyze"), ("slurm",)),
    **dict.fromkeys(
        ("nodes", "time", "cpus", "gpus", "mem_bytes", "job_name", "queue", "account", "output",
         "directives"),
        _QUEUED,
    ),
    "hosts": ("ssh",),
}  # fmt: skip

# Options of the script's own whose values are fields of the job.
_OF_JOB = (
    "time", "cpus", "gpus", "mem_bytes", "job_name", "queue", "account", "output", "directives",
    "mode", "trap", "analyze",
)  # fmt: skip


def _warn_of_problems(datasets: Sequence[str], nodes: int) -> None:
    """Warns of problems that would end the job at its start if its nodes were like this machine."""
    from fanstore.buckets.address import is_address
    from fanstore.dataset import is_dataset, open_dataset
    from fanstore.errors import FanstoreError

    problems = []
    for dataset in datasets:
        if is_address(dataset) or (os.path.isdir(dataset) and not is_dataset(dataset)):
            continue  # it is read as it is
        try:
            open_dataset(dataset).close()
        except (FanstoreError, OSError) as error:
            problems.append(str(error))
    if nodes > 1 and find_spec("mpi4py") is None:
        problems.append(NO_MPI4PY)
    for problem in problems:
        print(f"fanstore: warning: on this machine the job would fail: {problem}", file=sys.stderr)


def _installed(name: str) -> str | None:
    """Returns the path of a program in this installation's scripts directory, or None."""
    path = os.path.join(sysconfig.get_path("scripts"), name)
    return path if os.access(path, os.X_OK) else None


def our_program() -> str:
    """Returns the path of this installation's console script, or of the one on PATH."""
    return _installed("fanstore") or shutil.which("fanstore") or "fanstore"


@click.command(
    cls=ServingCommand,
    common="scheduler nodes hosts time queue cpus gpus mem_bytes directives dataset mount",
)
@click.option("--scheduler", type=click.Choice(SCHEDULERS), default="slurm", show_default=True,
              help="pbs: PBS Professional, OpenPBS. ssh: nodes that ssh reaches.")  # fmt: skip
@click.option("-N", "--nodes", type=click.IntRange(min=1), help="Nodes.")
@click.option("--hosts", metavar="HOST,HOST...", help="With --scheduler ssh: the nodes.")
@click.option("--time", metavar="LIMIT", help="Time limit: minutes, H:M:S or days-hours.")
@click.option("--queue", metavar="NAME", help="Queue; Slurm's partition.")
@click.option("--cpus-per-task", "cpus", type=click.IntRange(min=1),
              help="CPUs of each task; there is one on each node.")  # fmt: skip
@click.option("--gpus-per-node", "gpus", type=click.IntRange(min=1), help="GPUs of each node.")
@click.option("--mem", "mem_bytes", type=ByteCount(), metavar="SIZE",
              help="Memory of each node, such as 64G.")  # fmt: skip
@click.option("--account", metavar="NAME", help="Account; LSF's project.")
@click.option("--job-name", metavar="NAME", help="Name of the job.")
@click.option("--output", metavar="FILE", help="The file for the job's output.")
@click.option("--directive", "directives", multiple=True, metavar="OPTION",
              help="Any other option of the scheduler, as in its #SBATCH, #PBS or #BSUB "
              "line.")  # fmt: skip
@click.option("--site", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="TOML file that describes the cluster.")  # fmt: skip
@click.option("--mode", type=click.Choice(["run", "mpi"]), default="run", show_default=True,
              help="Slurm: run CMD once on each node, or as MPI ranks beside the "
              "daemons.")  # fmt: skip
@click.option("--ntasks-per-node", type=click.IntRange(min=1),
              help="With --mode mpi: ranks of CMD on each node [default: 1].")  # fmt: skip
@click.option("--analyze", is_flag=True,
              help="Slurm: have `fanstore study analyze` run CMD, on all nodes.")  # fmt: skip
@trap_option
@serving_options
@command_argument
@click.pass_context
def command(
    ctx: click.Context,
    /,
    scheduler: str,
    nodes: int | None,
    hosts: str | None,
    site: Path | None,
    ntasks_per_node: int | None,
    command: tuple[str, ...],
    **others: Any,
) -> None:
    """Print a job script that runs CMD under FanStore, once on each of N nodes.

    The script is complete and commented: read it, change it, submit it. Options from --dataset on
    are those of `fanstore run`. In --local-dir, $NAMES are expanded on each node.

    \b
    Example:
      fanstore script -N 8 --time 4:00:00 --queue gpu --gpus-per-node 4 \\
          --dataset /shared/imagenet.fan -- python train.py > job.sh
    """
    from fanstore.launch.job_script import ScriptJob, parse_hosts, render
    from fanstore.launch.site import Site, load_site

    _refuse_idle(ctx, scheduler, nodes, hosts)
    _refuse_contradictions(ctx, nodes, ntasks_per_node)
    named = parse_hosts(hosts) if hosts is not None else ()
    fields = {name: others.pop(name) for name in _OF_JOB}
    given = written_options(ctx, others)
    job = ScriptJob(
        scheduler=scheduler,
        nodes=nodes or len(named),
        hosts=named,
        command=command,
        options=tuple(words for name, words in given if name != "local_dir"),
        fanstore=our_program(),
        mpiexec=_installed("mpiexec") or "mpiexec",  # the wheel of MPICH installs one
        tasks_per_node=ntasks_per_node or 1,
        local_dir=others["local_dir"],
        **fields,
    )
    text = render(job, load_site(site) if site else Site())
    _warn_of_problems(others["dataset"], job.nodes)
    sys.stdout.buffer.write(os.fsencode(text))


def _refuse_idle(ctx: click.Context, scheduler: str, nodes: int | None, hosts: str | None) -> None:
    """Raises UsageError for options that this scheduler does not use, and for a missing one."""
    for parameter in ctx.command.params:
        name = parameter.name or ""
        is_given = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_given and scheduler not in _FOR.get(name, SCHEDULERS):
            raise click.UsageError(
                f"{parameter.opts[-1]} means nothing with --scheduler {scheduler}", ctx
            )
    if scheduler == "ssh" and hosts is None:
        raise click.UsageError("--scheduler ssh needs --hosts HOST,HOST...", ctx)
    if scheduler != "ssh" and nodes is None:
        raise click.UsageError(f"--scheduler {scheduler} needs --nodes", ctx)


def _refuse_contradictions(
    ctx: click.Context, nodes: int | None, ntasks_per_node: int | None
) -> None:
    mode, analyze, trap = (ctx.params[name] for name in ("mode", "analyze", "trap"))
    if mode == "run" and ntasks_per_node is not None:
        raise click.UsageError("--ntasks-per-node is for --mode mpi", ctx)
    if mode == "mpi" and nodes == 1:
        hint = "on one node run the launcher itself: --mode run ... -- mpiexec -n RANKS CMD"
        raise click.UsageError(f"--mode mpi is for several nodes; {hint}", ctx)
    if analyze and (mode == "mpi" or trap):
        other = "--mode mpi" if mode == "mpi" else "--trap"
        raise click.UsageError(f"--analyze starts CMD once on each node, without {other}", ctx)
