"""fanstore script: prints a job script for a scheduler, or for none."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fanstore.cli.dataset_options import WrittenOptionsCommand, serving_options, written_options
from fanstore.cli.datasets.prepare import ByteCount
from fanstore.launcher import NO_MPI4PY

if TYPE_CHECKING:
    from fanstore.launch.sbatch import Site

# Options that need a scheduler: (parameter, option).
_ASKED = (
    ("nodes", "--nodes"), ("time", "--time"), ("cpus", "--cpus-per-node"),
    ("gpus", "--gpus-per-node"), ("mem", "--mem"), ("job_name", "--job-name"),
    ("queue", "--queue"), ("account", "--account"), ("output", "--output"),
    ("directives", "--directive"),
)  # fmt: skip

Words = tuple[tuple[str, ...], ...]


def script_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options and arguments that all commands for job scripts share, after their own."""
    options: list[Callable[..., Any]] = [
        click.option(
            "--site",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="TOML file that describes the cluster.",
        ),
        click.option("--time", metavar="LIMIT", help="Time limit: minutes, H:M:S or days-hours."),
        click.option("--job-name", metavar="NAME", help="Name of the job."),
        click.option("--account", metavar="NAME", help="Account; LSF's project."),
        click.option("--output", metavar="FILE", help="The file for the job's output."),
        click.option("--trap", is_flag=True, help="Serve programs that no library can enter, too."),
        serving_options,
        click.argument(
            "command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD..."
        ),
        click.pass_context,
    ]
    for option in reversed(options):
        function = option(function)
    return function


def print_script(
    ctx: click.Context,
    site: Path | None,
    nodes: int,
    serving: Mapping[str, Any],
    rendered: Callable[[Site, Words], str],
) -> None:
    """Prints a job script for a site, and warns of problems that show on this machine. serving: the
    options of `fanstore run`, which are checked as far as possible here; rendered: makes the text
    from the site and those options, without the local directory, which the script names itself on
    each node."""
    from fanstore.launch import sbatch

    options = tuple(w for name, w in written_options(ctx, serving) if name != "local_dir")
    text = rendered(sbatch.load_site(site) if site else sbatch.Site(), options)
    _warn_of_problems(serving["dataset"], nodes)
    sys.stdout.buffer.write(os.fsencode(text))


def _warn_of_problems(datasets: Sequence[str], nodes: int) -> None:
    """Warns of problems that would end the job at its start if its nodes were like this machine."""
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


def _installed(name: str) -> str | None:
    """Returns the path of a program in this installation's scripts directory, or None."""
    path = os.path.join(sysconfig.get_path("scripts"), name)
    return path if os.access(path, os.X_OK) else None


def our_program() -> str:
    """Returns the path of this installation's console script, or of the one on PATH."""
    return _installed("fanstore") or shutil.which("fanstore") or "fanstore"


@click.command(
    cls=WrittenOptionsCommand,
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--scheduler",
    type=click.Choice(["slurm", "pbs", "lsf", "ssh"]),
    required=True,
    help="pbs: PBS Professional and OpenPBS. ssh: no scheduler, but nodes that ssh reaches.",
)
@click.option("-N", "--nodes", type=click.IntRange(min=1), help="Nodes.")
@click.option("--hosts", metavar="HOST,HOST...", help="With --scheduler ssh: the nodes.")
@click.option("--cpus-per-node", "cpus", type=click.IntRange(min=1), help="CPUs of each node.")
@click.option("--gpus-per-node", "gpus", type=click.IntRange(min=1), help="GPUs of each node.")
@click.option("--mem", type=ByteCount(), metavar="SIZE", help="Memory of each node, such as 64G.")
@click.option("--queue", metavar="NAME", help="Queue; Slurm's partition.")
@click.option(
    "--directive",
    "directives",
    multiple=True,
    metavar="OPTION",
    help="Any other option of the scheduler, as it stands in a #SBATCH, #PBS or #BSUB line.",
)
@script_options
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
    asked = {name: others.pop(name) for name, _ in _ASKED}
    _refuse_idle(ctx, scheduler, hosts, asked)
    about = {"command": command, "local_dir": others["local_dir"], "fanstore": our_program()}

    def rendered(described: Site, options: Words) -> str:
        about["options"] = (*options, ("--trap",)) if trap else options
        if scheduler == "slurm":
            return _for_slurm(asked, about, described)
        return _for_hosts(scheduler, hosts, asked, about, described)

    nodes = asked["nodes"] or (hosts or "").count(",") + 1
    print_script(ctx, site, nodes, others, rendered)


def _refuse_idle(
    ctx: click.Context, scheduler: str, hosts: str | None, asked: Mapping[str, Any]
) -> None:
    """Raises UsageError for options that this scheduler does not use, and for a missing one."""
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


def _for_slurm(asked: dict[str, Any], about: dict[str, Any], site: Site) -> str:
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
    job = sbatch.SbatchJob(
        nodes=asked["nodes"],
        time=asked["time"],
        cpus_per_task=asked["cpus"],
        limits={name: str(value) for name, value in limits.items() if value is not None},
        sbatch=asked["directives"],
        **about,
    )
    return sbatch.render(job, site)


def _for_hosts(
    scheduler: str,
    hosts: str | None,
    asked: Mapping[str, Any],
    about: Mapping[str, Any],
    site: Any,
) -> str:
    from fanstore.launch import scheduled

    named = scheduled.parse_hosts(hosts) if hosts is not None else ()
    others = {name: value for name, value in asked.items() if name not in ("nodes", "mem")}
    request = scheduled.ScheduledJob(
        scheduler=scheduler,
        nodes=asked["nodes"] or len(named),
        hosts=named,
        mpiexec=_installed("mpiexec") or "mpiexec",  # the wheel of MPICH installs one
        mem_bytes=asked["mem"],
        **others,
        **about,
    )
    return scheduled.render(request, site)
