"""Job scripts for Slurm: their content, the settings of a site, and their text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanstore import __version__
from fanstore.config import load_toml
from fanstore.errors import UsageError
from fanstore.report.templating import template

if TYPE_CHECKING:
    import jinja2

WARNING_S = 300
WAIT_S = 600

# Options that the template sets itself, and that `sbatch` lines may not set.
_OWN_OPTIONS = ("--nodes", "--ntasks", "--ntasks-per-node")
_OPTION = re.compile(r"--[a-z][a-z-]*(=[^\n\r]*)?")
_VARIABLE = re.compile(r"\$(?=[A-Za-z_]|\{[A-Za-z_][A-Za-z0-9_]*\})")
_DURATION = re.compile(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?")


@dataclass(frozen=True)
class Site:
    """The settings of a cluster, from its TOML file. Each field is a key of that file."""

    modules: tuple[str, ...] = ()
    mpi: str = "pmi2"
    mpiexec: tuple[str, ...] = ()
    local_dir: str | None = None
    sbatch: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()


@dataclass(frozen=True)
class SbatchJob:
    """The command of one job, and where it runs. `options` are the words for `fanstore run` or
    `start`."""

    nodes: int
    command: tuple[str, ...]
    options: tuple[tuple[str, ...], ...]
    fanstore: str = "fanstore"
    mode: str = "run"
    tasks_per_node: int = 1
    local_dir: str | None = None
    time: str | None = None
    cpus_per_task: int | None = None
    limits: Mapping[str, str] = field(default_factory=dict)
    sbatch: tuple[str, ...] = ()
    trap: bool = False
    analyze: bool = False


def load_site(path: Path) -> Site:
    """Reads the site file. Raises UsageError that names the file and the key if a value is not
    valid."""
    table = load_toml(path)
    try:
        return make_site(table)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def make_site(table: Mapping[str, Any]) -> Site:
    """Returns the site that a TOML file with these keys and values describes. Raises UsageError."""
    known = asdict(Site())
    values: dict[str, str | tuple[str, ...]] = {}
    for key, value in table.items():
        if key not in known:
            raise UsageError(f"unknown key {key!r}; there are {', '.join(known)}")
        values[key] = _as_words(key, value) if known[key] == () else _as_text(key, value)
    if "mpi" in values and "mpiexec" in values:
        raise UsageError("'mpi' is srun's and 'mpiexec' takes its place: give one of them")
    return replace(Site(), **values)  # type: ignore[arg-type]


def _as_text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise UsageError(f"{key!r} must be a text, not {value!r}")
    return value


def _as_words(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise UsageError(f"{key!r} must be a list of texts, not {value!r}")
    return tuple(_as_text(key, word) for word in value)


def check_option(option: str) -> str:
    """Returns an option for sbatch, in one word. Raises UsageError if it is not an option, or is
    one of the template's own."""
    if not _OPTION.fullmatch(option):
        raise UsageError(f"sbatch option {option!r}: write --name or --name=value, in one line")
    if option.partition("=")[0] in _OWN_OPTIONS:
        raise UsageError(f"sbatch option {option!r}: `fanstore sbatch` has its own option for it")
    return option


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


def _words(value: Sequence[str]) -> str:
    return " ".join(shlex.quote(word) for word in value)


def _header(option: str) -> str:
    """Quotes a value for an #SBATCH line, in which a backslash escapes even between single
    quotes."""
    return shlex.quote(option).replace("\\", "\\\\")


def shell_template(name: str) -> jinja2.Template:
    """Returns a template of a job script, with the filters that turn values into shell words."""
    filters: dict[str, Callable[..., str]] = {
        "quote": lambda value: shlex.quote(str(value)),
        "words": _words,
        "header": _header,
        "verbatim": str,  # text of a site or a template that is shell already
    }
    # Nothing is escaped in a shell script: each value has its filter.
    return template("fanstore.launch", f"{name}.sh.j2", autoescape=False, filters=filters)


def render(job: SbatchJob, site: Site) -> str:
    """Returns the job script. Raises UsageError for options that sbatch cannot have."""
    return shell_template(job.mode).render(_values(job, site))


def _limits(job: SbatchJob) -> list[str]:
    """Returns the header lines for options that have their own flag on our command line."""
    named = dict(job.limits)
    if job.time is not None:
        named["time"] = job.time
    if job.cpus_per_task is not None:
        named["cpus-per-task"] = str(job.cpus_per_task)
    return [check_option(f"--{name}={value}") for name, value in named.items()]


def _launcher(job: SbatchJob, site: Site, local_dir: str | None) -> str:
    """Returns the command line with which `fanstore study analyze` starts a run on all nodes."""
    count = str(job.nodes)
    if site.mpiexec:
        words = [*site.mpiexec, "-n", count, "-ppn", "1"]
    else:
        words = ["srun", "--overlap", f"--nodes={count}", f"--ntasks={count}",
                 "--ntasks-per-node=1", f"--mpi={site.mpi}"]  # fmt: skip
    on_node = ["bash", "-c", node_script(local_dir), "on_node"] if local_dir else []
    return shlex.join([*words, *on_node])


def local_dir_of(given: str | None, site: Site) -> str | None:
    """Returns the local directory for a job script, or None. Raises UsageError if it contains
    {rank}, which is for ranks on one machine."""
    local_dir = given or site.local_dir
    if local_dir and "{rank}" in local_dir:
        raise UsageError(f"local directory {local_dir}: {{rank}} is for ranks on one machine")
    return local_dir


def _values(job: SbatchJob, site: Site) -> Mapping[str, object]:
    """Returns every name that the templates use, with its value."""
    local_dir = local_dir_of(job.local_dir, site)
    return {
        "version": __version__,
        "mode": job.mode,
        "nodes": job.nodes,
        "tasks_per_node": job.tasks_per_node,
        "limits": _limits(job),
        "warning_s": warning_s(job.time),
        "warning": "TERM" if site.mpiexec or job.analyze else "USR2",
        "sbatch": [check_option(option) for option in (*site.sbatch, *job.sbatch)],
        "modules": site.modules,
        "environment": site.environment,
        "analyze": job.analyze,
        "launcher": _launcher(job, site, local_dir),
        "fanstore": job.fanstore,
        "cpus_per_task": job.cpus_per_task,
        "local_dir": local_dir,
        "node_script": node_script(local_dir) if local_dir else "",
        "mpi": site.mpi,
        "mpiexec": site.mpiexec,
        "options": (*job.options, ("--trap",)) if job.trap and job.mode == "run" else job.options,
        "trap": job.trap,
        "wait_s": WAIT_S,
        "command": job.command,
    }
