"""The header lines in which a job script asks its scheduler for nodes, time and memory."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fanstore.errors import UsageError

if TYPE_CHECKING:
    from fanstore.launch.job_script import ScriptJob
    from fanstore.launch.site import Site

WARNING_S = 300

# Slurm's options that the template sets itself.
_OWN_OPTIONS = ("--nodes", "--ntasks", "--ntasks-per-node")
_OPTION = re.compile(r"--[a-z][a-z-]*(=[^\n\r]*)?")
# A value in a line of PBS or LSF. It has no quotes or spaces: they read those differently.
_PLAIN = re.compile(r"""[^\s"'\\`#&|;<>]+""")
_DURATION = re.compile(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?")
_MIB = 1 << 20


def header_lines(job: ScriptJob, site: Site) -> list[str]:
    """Returns the header lines; those of the job come last, and so win. Raises UsageError for
    values that the scheduler cannot take."""
    if job.scheduler == "slurm":
        # In an #SBATCH line a backslash escapes even between single quotes.
        options = [*site.sbatch, *_slurm(job), *job.directives]
        quoted = (shlex.quote(check_option(option)) for option in options)
        return ["#SBATCH " + option.replace("\\", "\\\\") for option in quoted]
    if job.scheduler == "ssh":
        return []
    mark, lines = ("#PBS", _pbs(job)) if job.scheduler == "pbs" else ("#BSUB", _lsf(job))
    return [f"{mark} {line}" for line in (*lines, *_directives(job, mark))]


def check_option(option: str) -> str:
    """Returns an option for sbatch, in one word. Raises UsageError if it is not an option, or is
    one of the template's own."""
    if not _OPTION.fullmatch(option):
        raise UsageError(f"sbatch option {option!r}: write --name or --name=value, in one line")
    if option.partition("=")[0] in _OWN_OPTIONS:
        raise UsageError(f"sbatch option {option!r}: `fanstore script` has its own option for it")
    return option


def _slurm(job: ScriptJob) -> Iterator[str]:
    """Yields the options of Slurm, from sbatch(1)."""
    values = {
        "job-name": job.job_name, "partition": job.queue, "account": job.account,
        "output": job.output, "time": job.time, "cpus-per-task": job.cpus,
        "gpus-per-node": job.gpus,
        "mem": None if job.mem_bytes is None else f"{_mib(job.mem_bytes)}M",
    }  # fmt: skip
    for name, value in values.items():
        if value is not None:
            yield f"--{name}={value}"


def _pbs(job: ScriptJob) -> Iterator[str]:
    """Yields the options of PBS Professional and OpenPBS, from qsub(1B) and pbs_resources(7B)."""
    chunk = [f"select={job.nodes}"]
    chunk += [f"ncpus={job.cpus}"] if job.cpus is not None else []
    chunk += [f"ngpus={job.gpus}"] if job.gpus is not None else []
    chunk += [f"mem={_mib(job.mem_bytes)}mb"] if job.mem_bytes is not None else []
    yield f"-l {':'.join(chunk)}"
    yield "-l place=scatter"
    if job.time is not None:
        minutes, seconds = divmod(_seconds(job.time), 60)
        yield f"-l walltime={minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    yield "-j oe"
    yield from _named(job, {"job_name": "-N", "queue": "-q", "account": "-A", "output": "-o"})


def _lsf(job: ScriptJob) -> Iterator[str]:
    """Yields the options of IBM Spectrum LSF 10.1, from bsub(1)."""
    yield f"-n {job.nodes}"
    yield '-R "span[ptile=1]"'
    if job.cpus is not None:
        yield f'-R "affinity[core({job.cpus})]"'
    if job.gpus is not None:
        yield f'-gpu "num={job.gpus}/host"'
    if job.mem_bytes is not None:
        yield f'-R "rusage[mem={_mib(job.mem_bytes)}MB]"'
    if job.time is not None:
        minutes = -(-_seconds(job.time) // 60)
        yield f"-W {minutes // 60}:{minutes % 60:02}"
        if warning_s(job.time) >= 60:  # -wt is in minutes
            yield "-wa TERM"
            yield f"-wt {warning_s(job.time) // 60}"
    yield from _named(job, {"job_name": "-J", "queue": "-q", "account": "-P", "output": "-o"})


def _named(job: ScriptJob, flags: Mapping[str, str]) -> Iterator[str]:
    for field, flag in flags.items():
        value = getattr(job, field)
        if value is None:
            continue
        if not _PLAIN.fullmatch(value) or value.startswith("-"):
            option = "--" + field.replace("_", "-")
            raise UsageError(
                f"{option} {value!r}: a line of the header takes no spaces, quotes or signs of the "
                "shell; write it into the script by hand"
            )
        yield f"{flag} {value}"


def _directives(job: ScriptJob, mark: str) -> Iterator[str]:
    for directive in job.directives:
        if not re.fullmatch(r"-[^\n\r\0]+", directive):
            raise UsageError(
                f"--directive {directive!r}: write one option of a {mark} line, as '-x'"
            )
        yield directive


def warning_s(time: str | None) -> int:
    """Returns how many seconds before the time limit the job is warned: 300, or a quarter of a
    short limit. (Slurm warns a job at once if its limit is not longer than that.)"""
    limit_s = duration_s(time) if time is not None else None
    return WARNING_S if limit_s is None else min(WARNING_S, limit_s // 4)


def duration_s(text: str) -> int | None:
    """Returns a time limit in sbatch's format in seconds; None for other text."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    days, *rest = match.groups()
    parts = [int(part) for part in rest if part is not None]
    if days is None and len(parts) < 3:  # minutes[:seconds]; else hours come first
        parts.insert(0, 0)
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds


def _seconds(time: str) -> int:
    limit_s = duration_s(time)
    if not limit_s:
        raise UsageError(f"--time {time!r}: write minutes, hours:minutes:seconds or days-hours")
    return limit_s


def _mib(count: int) -> int:
    return -(-count // _MIB)
