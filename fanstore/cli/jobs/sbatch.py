"""fanstore sbatch: prints a job script for Slurm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fanstore.cli.dataset_options import WrittenOptionsCommand
from fanstore.cli.jobs.script import our_program, print_script, script_options

# Options of sbatch itself that this command has under the same name.
_LIMITS = ("job_name", "partition", "account", "gpus_per_node", "mem", "output")


@click.command(
    cls=WrittenOptionsCommand,
    context_settings={"allow_interspersed_args": False},
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
@click.option("--cpus-per-task", type=click.IntRange(min=1), help="CPUs of each task.")
@click.option("--partition", metavar="NAME", help="For sbatch.")
@click.option("--gpus-per-node", metavar="GPUS", help="For sbatch.")
@click.option("--mem", metavar="SIZE", help="For sbatch: memory of each node.")
@click.option(
    "--sbatch",
    "more",
    multiple=True,
    metavar="OPTION",
    help="Any other option of sbatch: --name=value.",
)
@click.option(
    "--analyze", is_flag=True, help="Have `fanstore study analyze` run CMD, on all nodes."
)
@script_options
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
    given = {n.replace("_", "-"): value for n, value in limits.items() if value is not None}

    def rendered(described: sbatch.Site, options: tuple[tuple[str, ...], ...]) -> str:
        job = sbatch.SbatchJob(
            nodes=nodes,
            command=command,
            options=options,
            trap=trap,
            analyze=analyze,
            fanstore=our_program(),
            mode=mode,
            tasks_per_node=ntasks_per_node or 1,
            local_dir=others["local_dir"],
            time=time,
            cpus_per_task=cpus_per_task,
            limits=given,
            sbatch=more,
        )
        return sbatch.render(job, described)

    print_script(ctx, site, nodes, others, rendered)
