"""Job scripts for PBS, LSF and plain ssh, in which MPICH's mpiexec reaches the nodes by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fanstore import __version__
from fanstore.errors import UsageError
from fanstore.launch.sbatch import (
    Site,
    duration_s,
    local_dir_of,
    node_script,
    shell_template,
    warning_s,
)

SCHEDULERS = ("pbs", "lsf", "ssh")

# A value in a header line. It has no quotes or spaces: the schedulers read those differently.
_PLAIN = re.compile(r"""[^\s"'\\`#&|;<>]+""")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MIB = 1 << 20


@dataclass(frozen=True)
class ScheduledJob:
    """The command of one job, and its requests to the scheduler; numbers and memory are per node.

    options: the words for `fanstore run`. hosts: the nodes for plain ssh, else (). directives:
    further header lines, without the `#PBS` or `#BSUB` before them.
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


def render(request: ScheduledJob, site: Site) -> str:
    """Returns the job script. Raises UsageError for values that the scheduler cannot take."""
    for key, value in (("mpi", site.mpi != Site.mpi), ("sbatch", site.sbatch)):
        if value:
            raise UsageError(f"site file: {key!r} is Slurm's, and this script is for another")
    local_dir = local_dir_of(request.local_dir, site)
    values = {
        "version": __version__,
        "header": [*_header(request), *(_line(request, text) for text in request.directives)],
        "modules": site.modules,
        "environment": site.environment,
        "nodes": request.nodes,
        "hosts": request.hosts,
        "fanstore": request.fanstore,
        "mpiexec": site.mpiexec or (request.mpiexec,),
        "local_dir": local_dir,
        "node_script": node_script(local_dir) if local_dir else "",
        "options": request.options,
        "command": request.command,
    }
    return shell_template(request.scheduler).render(values)


def _header(request: ScheduledJob) -> list[str]:
    """Returns the header lines in which a job asks for its nodes."""
    if request.scheduler == "pbs":
        return [f"#PBS {line}" for line in _pbs(request)]
    if request.scheduler == "lsf":
        return [f"#BSUB {line}" for line in _lsf(request)]
    return []


def _pbs(request: ScheduledJob) -> Iterator[str]:
    """Yields the options of PBS Professional and OpenPBS, from qsub(1B) and pbs_resources(7B)."""
    chunk = [f"select={request.nodes}"]
    chunk += [f"ncpus={request.cpus}"] if request.cpus is not None else []
    chunk += [f"ngpus={request.gpus}"] if request.gpus is not None else []
    chunk += [f"mem={_mib(request.mem_bytes)}mb"] if request.mem_bytes is not None else []
    yield f"-l {':'.join(chunk)}"
    yield "-l place=scatter"
    if request.time is not None:
        minutes, seconds = divmod(_seconds(request.time), 60)
        yield f"-l walltime={minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    yield "-j oe"
    yield from _named(request, {"job_name": "-N", "queue": "-q", "account": "-A", "output": "-o"})


def _lsf(request: ScheduledJob) -> Iterator[str]:
    """Yields the options of IBM Spectrum LSF 10.1, from bsub(1)."""
    yield f"-n {request.nodes}"
    yield '-R "span[ptile=1]"'
    if request.cpus is not None:
        yield f'-R "affinity[core({request.cpus})]"'
    if request.gpus is not None:
        yield f'-gpu "num={request.gpus}/host"'
    if request.mem_bytes is not None:
        yield f'-R "rusage[mem={_mib(request.mem_bytes)}MB]"'
    if request.time is not None:
        minutes = -(-_seconds(request.time) // 60)
        yield f"-W {minutes // 60}:{minutes % 60:02}"
        if warning_s(request.time) >= 60:  # -wt is in minutes
            yield "-wa TERM"
            yield f"-wt {warning_s(request.time) // 60}"
    yield from _named(request, {"job_name": "-J", "queue": "-q", "account": "-P", "output": "-o"})


def _named(request: ScheduledJob, flags: dict[str, str]) -> Iterator[str]:
    for field, flag in flags.items():
        value = getattr(request, field)
        if value is None:
            continue
        if not _PLAIN.fullmatch(value) or value.startswith("-"):
            option = "--" + field.replace("_", "-")
            raise UsageError(
                f"{option} {value!r}: a line of the header takes no spaces, quotes or signs of the "
                "shell; write it into the script by hand"
            )
        yield f"{flag} {value}"


def _line(request: ScheduledJob, directive: str) -> str:
    mark = {"pbs": "#PBS", "lsf": "#BSUB"}[request.scheduler]
    if not re.fullmatch(r"-[^\n\r\0]+", directive):
        raise UsageError(f"--directive {directive!r}: write one option of a {mark} line, as '-x'")
    return f"{mark} {directive}"


def _seconds(time: str) -> int:
    limit_s = duration_s(time)
    if not limit_s:
        raise UsageError(f"--time {time!r}: write minutes, hours:minutes:seconds or days-hours")
    return limit_s


def _mib(count: int) -> int:
    return -(-count // _MIB)
