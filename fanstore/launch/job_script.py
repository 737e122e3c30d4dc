"""Job scripts for Slurm, PBS, LSF and plain ssh: the jobs, and the text of their scripts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanstore import __version__
from fanstore.errors import UsageError
from fanstore.launch.job_header import header_lines, warning_s
from fanstore.launch.site import Site
from fanstore.report.templating import template

if TYPE_CHECKING:
    import jinja2

WAIT_S = 600
SCHEDULERS = ("slurm", "pbs", "lsf", "ssh")

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_VARIABLE = re.compile(r"\$(?=[A-Za-z_]|\{[A-Za-z_][A-Za-z0-9_]*\})")


@dataclass(frozen=True)
class ScriptJob:
    """The command of one job, and its requests to the scheduler.

    options: the words for `fanstore run` or `start`. mpiexec: starts the nodes' daemons if there is
    no srun. hosts: the nodes for plain ssh, else (). cpus: of a task; gpus, mem_bytes: of a node.
    directives: further options of the scheduler. mode, tasks_per_node, analyze: for Slurm alone;
    mode is "mpi" if the command is an MPI program beside the daemons, else "run".
    """

    scheduler: str
    nodes: int
    command: tuple[str, ...]
    options: tuple[tuple[str, ...], ...]
    fanstore: str = "fanstore"
    mpiexec: str = "mpiexec"
    local_dir: str | None = None
    hosts: tuple[str, ...] = ()
    time: str | None = None
    cpus: int | None = None
    gpus: int | None = None
    mem_bytes: int | None = None
    job_name: str | None = None
    queue: str | None = None
    account: str | None = None
    output: str | None = None
    directives: tuple[str, ...] = ()
    mode: str = "run"
    tasks_per_node: int = 1
    trap: bool = False
    analyze: bool = False


def parse_hosts(text: str) -> tuple[str, ...]:
    """Returns the names in a list with commas. Raises UsageError for text that is not a host name,
    and for a name that occurs twice."""
    hosts = tuple(text.split(","))
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise UsageError(f"--hosts {text}: {host!r} is no name of a host; write node1,node2")
        if hosts.count(host) > 1:
            raise UsageError(f"--hosts {text}: {host} comes twice; each node runs one `fanstore`")
    return hosts


def render(job: ScriptJob, site: Site) -> str:
    """Returns the job script. Raises UsageError for values that the scheduler cannot take."""
    if job.scheduler == "slurm":
        return _shell_template(f"slurm_{job.mode}").render(_values(job, site))
    for key, value in (("mpi", site.mpi != Site.mpi), ("sbatch", site.sbatch)):
        if value:
            raise UsageError(f"site file: {key!r} is Slurm's, and this script is for another")
    return _shell_template(job.scheduler).render(_values(job, site))


def _shell_template(name: str) -> jinja2.Template:
    """Returns a template of a job script, with the filters that turn values into shell words."""
    filters: dict[str, Callable[..., str]] = {
        "quote": lambda value: shlex.quote(str(value)),
        "words": shlex.join,
        "verbatim": str,  # text of a site or a template that is shell already
    }
    # Nothing is escaped in a shell script: each value has its filter.
    return template("fanstore.launch", f"{name}.sh.j2", autoescape=False, filters=filters)


def _values(job: ScriptJob, site: Site) -> Mapping[str, object]:
    """Returns every name that the templates use, with its value."""
    local_dir = _local_dir_of(job, site)
    trapped = (("--trap",),) if job.trap and job.mode == "run" else ()
    return {
        "version": __version__,
        "header": header_lines(job, site),
        "mode": job.mode,
        "nodes": job.nodes,
        "hosts": job.hosts,
        "tasks_per_node": job.tasks_per_node,
        "cpus_per_task": job.cpus,
        "warning_s": warning_s(job.time),
        "warning": "TERM" if site.mpiexec or job.analyze else "USR2",
        "modules": site.modules,
        "environment": site.environment,
        "analyze": job.analyze,
        "launcher": _launcher(job, site, local_dir),
        "fanstore": job.fanstore,
        "local_dir": local_dir,
        "node_script": node_script(local_dir) if local_dir else "",
        "mpi": site.mpi,
        "mpiexec": site.mpiexec or (() if job.scheduler == "slurm" else (job.mpiexec,)),
        "options": (*job.options, *trapped),
        "trap": job.trap,
        "wait_s": WAIT_S,
        "command": job.command,
    }


def _local_dir_of(job: ScriptJob, site: Site) -> str | None:
    """Returns the local directory for a job script, or None. Raises UsageError if it contains
    {rank}, which is for ranks on one machine."""
    local_dir = job.local_dir or site.local_dir
    if local_dir and "{rank}" in local_dir:
        raise UsageError(f"local directory {local_dir}: {{rank}} is for ranks on one machine")
    return local_dir


def node_script(local_dir: str) -> str:
    """Returns the script that bash runs on a node before the command. It sets the local directory,
    with its $NAMES expanded."""
    quoted = re.sub(r'[\\"`]', r"\\\g<0>", local_dir)
    kept = "\0".join(_VARIABLE.split(quoted)).replace("$", r"\$").replace("\0", "$")
    return (
        f'export FANSTORE_LOCAL_DIR="{kept}"\n'
        'mkdir -p -- "$FANSTORE_LOCAL_DIR" || exit 125\n'
        'exec "$@"'
    )


def _launcher(job: ScriptJob, site: Site, local_dir: str | None) -> str:
    """Returns the command line with which an analysis starts a run on all nodes of Slurm."""
    count = str(job.nodes)
    if site.mpiexec:
        words = [*site.mpiexec, "-n", count, "-ppn", "1"]
    else:
        words = ["srun", "--overlap", f"--nodes={count}", f"--ntasks={count}",
                 "--ntasks-per-node=1", f"--mpi={site.mpi}"]  # fmt: skip
    on_node = ["bash", "-c", node_script(local_dir), "on_node"] if local_dir else []
    return shlex.join([*words, *on_node])
