"""fanstore script: prints a job script for a scheduler, or for none."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

import click

from fanstore.cli.dataset_options import serving_options
from fanstore.cli.datasets.prepare import ByteCount
from fanstore.cli.jobs.sbatch import SbatchCommand, our_program, say_what_is_missing, serving_words

# What only a scheduler can be asked for: (parameter, option).
_ASKED = (
    ("nodes", "--nodes"), ("time", "--time"), ("cpus", "--cpus-per-node"),
    ("gpus", "--gpus-per-node"), ("mem", "--mem"), ("job_name", "--job-name"),
    ("queue", "--queue"), ("account", "--account"), ("output", "--output"),
    ("directives", "--directive"),
)  # fmt: skip


@click.command(
    cls=SbatchCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Print a job script for Slurm, PBS, LSF or plain ssh.",
)
@click.option(
    "--scheduler",
    type=click.Choice(["slurm", "pbs", "lsf", "ssh"]),
    required=True,
    help="pbs: PBS Professional and OpenPBS. ssh: no scheduler, but nodes that ssh reaches.",
)
@click.option("-N", "--nodes", type=click.IntRange(min=1), help="Nodes.")
@click.option("--hosts", metavar="HOST,HOST...", help="With --scheduler ssh: the nodes.")
@click.option(
    "--site",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file that describes the cluster.",
)
@click.option("--time", metavar="LIMIT", help="Time limit: minutes, H:M:S or days-hours.")
@click.option("--cpus-per-node", "cpus", type=click.IntRange(min=1), help="CPUs of each node.")
@click.option("--gpus-per-node", "gpus", type=click.IntRange(min=1), help="GPUs of each node.")
@click.option("--mem", type=ByteCount(), metavar="SIZE", help="Memory of each node, such as 64G.")
@click.option("--job-name", metavar="NAME", help="Name of the job.")
@click.option("--queue", metavar="NAME", help="Queue; Slurm's partition.")
@click.option("--account", metavar="NAME", help="Account; LSF's project.")
@click.option("--output", metavar="FILE", help="Where what the job prints goes.")
@click.option(
    "--directive",
    "directives",
    multiple=True,
    metavar="OPTION",
    help="Any other option of the scheduler, as it stands in a #SBATCH, #PBS or #BSUB line.",
)
@click.option("--trap", is_flag=True, help="Serve programs that no library can enter, too.")
@serving_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    scheduler: str,
    hosts: str | None,
    site: Path | None,
    trap: bool,
    command: tuple[str, ...],
    **others: Any,
) -> None:
    """Print a job script that runs CMD under FanStore, once on each of N nodes.

    The script is complete and commented: read it, change it, submit it. Options from --dataset on
    are those of `fanstore run`. In --local-dir, $NAMES are expanded on each node. `fanstore sbatch`
    has more for Slurm.
    """
    from fanstore.launch import sbatch

    asked = {name: others.pop(name) for name, _ in _ASKED}
    _refuse_idle(ctx, scheduler, hosts, asked)
    options = serving_words(ctx, others)
    if trap:
        options = (*options, ("--trap",))
    nodes = asked["nodes"] or (hosts or "").count(",") + 1
    described = sbatch.load_site(site) if site else sbatch.Site()
    about = {"command": command, "options": options, "local_dir": others["local_dir"]}
    if scheduler == "slurm":
        text = _for_slurm(asked, about, described)
    else:
        text = _for_hosts(scheduler, hosts, asked, about, described)
    say_what_is_missing(others["dataset"], nodes)
    sys.stdout.buffer.write(os.fsencode(text))


def _refuse_idle(
    ctx: click.Context, scheduler: str, hosts: str | None, asked: dict[str, Any]
) -> None:
    """Raises UsageError for options that this scheduler has no use for, and for a missing one."""
    if scheduler != "ssh":
        if hosts is not None:
            raise click.UsageError(f"--hosts is for --scheduler ssh: {scheduler} names the nodes")
        if asked["nodes"] is None:
            raise click.UsageError(f"--scheduler {scheduler} needs --nodes", ctx)
        return
    if hosts is None:
        raise click.UsageError("--scheduler ssh needs --hosts HOST,HOST...", ctx)
    for name, option in _ASKED:
        if asked[name]:
            raise click.UsageError(
                f"{option} means nothing with --scheduler ssh: there is nobody to ask for it", ctx
            )


def _for_slurm(asked: dict[str, Any], about: dict[str, Any], site: Any) -> str:
    from fanstore.launch import sbatch

    mem = asked["mem"]
    limits = {
        "job-name": asked["job_name"],
        "partition": asked["queue"],
        "account": asked["account"],
        "gpus-per-node": asked["gpus"],
        "mem": None if mem is None else f"{-(-mem // (1 << 20))}M",
        "output": asked["output"],
    }
    job = sbatch.Job(
        nodes=asked["nodes"],
        fanstore=our_program(),
        time=asked["time"],
        cpus_per_task=asked["cpus"],
        limits={name: str(value) for name, value in limits.items() if value is not None},
        sbatch=asked["directives"],
        **about,
    )
    return sbatch.render(job, site)


def _for_hosts(
    scheduler: str, hosts: str | None, asked: dict[str, Any], about: dict[str, Any], site: Any
) -> str:
    from fanstore.launch import scheduled

    named = scheduled.parse_hosts(hosts) if hosts is not None else ()
    nodes = asked.pop("nodes") or len(named)
    request = scheduled.Request(
        scheduler=scheduler,
        nodes=nodes,
        hosts=named,
        fanstore=our_program(),
        mpiexec=_our_mpiexec(),
        mem_bytes=asked.pop("mem"),
        **asked,
        **about,
    )
    return scheduled.render(request, site)


def _our_mpiexec() -> str:
    """The mpiexec of this installation, as the wheel of MPICH brings it, else the one on PATH."""
    installed = os.path.join(sysconfig.get_path("scripts"), "mpiexec")
    return installed if os.access(installed, os.X_OK) else "mpiexec"
