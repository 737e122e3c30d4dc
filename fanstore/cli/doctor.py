"""fanstore doctor: describes this machine for FanStore, and the mode that a program needs."""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import click

from fanstore import config
from fanstore.errors import UsageError
from fanstore.launcher import ALONE, Launcher, detect, for_rank

if TYPE_CHECKING:
    from fanstore.programs.check import Verdict
    from fanstore.staging.local_dir import LocalDirectory


class Candidate(NamedTuple):
    """A directory that a job may choose as its local one, and whether it would."""

    directory: LocalDirectory
    chosen: bool


@dataclass(frozen=True)
class SettingFound:
    """A setting, its value here, and the source of that value."""

    name: str
    value: object
    source: str
    variable: str
    meaning: str


@dataclass(frozen=True)
class DoctorFindings:
    """Everything that doctor prints, in order."""

    platform: str
    problems: Sequence[str]
    libraries: Mapping[str, str]
    codecs: Mapping[str, str]
    mpi: Mapping[str, str | None]
    containers: Mapping[str, str | None]
    local_directories: Sequence[Candidate]
    limits: Mapping[str, int | None]
    mount_prefix: str
    settings_file: str
    settings: Sequence[SettingFound]


def _libraries(settings: config.Settings) -> dict[str, str]:
    """Returns the path of each of FanStore's own libraries, or the problem with it."""
    try:
        from fanstore._native import preload_path
        from fanstore.job import maps
        from fanstore.programs.check import problem

        left = problem()
        refused = maps.problem() if settings.maps else "switched off"
        redirected = "redirected" if left is None else f"{left}: safetensors needs --trap to save"
        return {
            "core": "loaded",
            "preload": os.fspath(preload_path()),
            "system calls of Rust libraries": redirected,
            "maps of other nodes' files": f"on the shared file system: {refused}"
            if refused
            else "by need, through FUSE",
        }
    except ImportError as error:
        return {"core": str(error)}


def _codecs() -> dict[str, str]:
    """Returns the library of each codec, and the problem if it cannot be loaded."""
    try:
        from fanstore.staging.codecs import codec_libraries
    except ImportError:
        return {}
    return {
        codec: library if problem is None else f"{library}: {problem}"
        for codec, (library, problem) in codec_libraries().items()
    }


def _beside_python() -> str:
    """Returns the directory in which the `mpich` wheel puts its programs."""
    return os.path.dirname(sys.executable)


def _mpi() -> dict[str, str | None]:
    """Returns the paths of MPI's programs, and whether several ranks could communicate: tries the
    transport."""
    from fanstore.transport.trial import attempt

    tried = attempt()
    version, library = tried.get("library_version"), tried.get("library")
    built = f"built for {version}: {library or 'not kept, no cache directory'}"
    return {
        "mpi4py": "installed" if find_spec("mpi4py") else None,
        "mpiexec": shutil.which("mpiexec") or shutil.which("mpiexec", path=_beside_python()),
        "srun": shutil.which("srun"),
        "mpicc": tried.get("mpicc"),
        "transport": built if tried["problem"] is None else f"problem: {tried['problem']}",
    }


def _containers(directories: Sequence[Candidate]) -> dict[str, str | None]:
    """Returns the container programs found here, and the requirements on an image. directories: the
    result of `_local_directories`."""
    try:
        from fanstore._native import preload_path
    except ImportError:  # _libraries reports it
        return {}
    from fanstore.launch.containers import KNOWN, library_folders
    from fanstore.programs.check import glibc_needed
    from fanstore.staging.base import StagingFolder

    preload = os.fspath(preload_path())
    version = ".".join(map(str, glibc_needed(preload) or ())) or "of any version"
    local = [StagingFolder(each.directory.path).path for each in directories if each.chosen]
    bound = ", ".join([*local, *sorted(library_folders(preload))])
    return {
        "programs": ", ".join(filter(shutil.which, KNOWN)) or None,
        "an image needs": f"glibc {version} or newer (not musl), /bin/sh and env",
        "bound at the same place": f"{bound}; mount prefixes that are there; with --in-place the "
        "dataset",
    }


def _launcher(problems: list[str]) -> Launcher:
    """Returns this process's place among the ranks; adds a problem with it to `problems`."""
    try:
        return detect(os.environ)
    except UsageError as error:
        problems.append(str(error))
        return ALONE


def _local_directories(settings: config.Settings, launcher: Launcher) -> list[Candidate]:
    """Returns the named directory, or every candidate in the order of trial; marks the chosen
    one."""
    from fanstore.staging.local_dir import candidates, examine_named

    named = for_rank(settings.local_dir, launcher)
    if named is not None:
        found = [examine_named(os.path.abspath(named), settings.sources["local_dir"])]
    else:
        found = list(candidates())
    chosen = next((entry for entry in found if entry.refusal is None), None)
    return [Candidate(entry, entry is chosen) for entry in found]


def _limits() -> dict[str, int | None]:
    """Returns the limits of this process that matter to FanStore; None: unlimited."""
    from fanstore.staging.memory import available_bytes

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    return {
        "open_files": None if soft == unlimited else soft,
        "open_files_hard": None if hard == unlimited else hard,
        "control_group_memory_left_bytes": available_bytes(),
    }


def _worked_out(
    settings: config.Settings, local: LocalDirectory, problems: list[str]
) -> dict[str, int]:
    """Returns the settings whose default is computed, with the values on this machine; adds to
    `problems` if they contradict each other. local: the local directory that a job would choose."""
    from fanstore.staging.budget import budget_of

    try:
        budget = budget_of(settings, local)
    except UsageError as error:
        problems.append(str(error))
        return {}
    return {"memory_bytes": budget.limit_bytes, "cache_bytes": budget.cache_bytes}


def _settings(
    settings: config.Settings, directories: Sequence[Candidate], problems: list[str]
) -> list[SettingFound]:
    """Returns every setting with its source. directories: the result of `_local_directories`."""
    chosen = [each for each in directories if each.chosen] or directories[-1:]
    worked_out = _worked_out(settings, chosen[0].directory, problems)
    return [
        SettingFound(
            setting.name,
            worked_out.get(setting.name, getattr(settings, setting.name)),
            settings.sources[setting.name],
            setting.variable,
            setting.meaning,
        )
        for setting in config.SETTINGS
    ]


def examine_all() -> DoctorFindings:
    """Collects everything that doctor prints."""
    from fanstore.node.prefix import default_prefix

    settings, problems = config.resolve_all()
    problems += [f"unknown variable {name}" for name in config.unknown_variables()]
    directories = _local_directories(settings, _launcher(problems))
    return DoctorFindings(
        platform=f"{platform.machine()}, Linux {platform.release()}, "
        f"{' '.join(platform.libc_ver())}, Python {platform.python_version()}",
        problems=problems,
        libraries=_libraries(settings),
        codecs=_codecs(),
        mpi=_mpi(),
        containers=_containers(directories),
        local_directories=directories,
        limits=_limits(),
        mount_prefix=default_prefix("<dataset name>"),
        settings_file=os.fspath(config.config_file()),
        settings=_settings(settings, directories, problems),
    )


def _as_json(found: DoctorFindings) -> str:
    directories = [
        {**asdict(each.directory), "chosen": each.chosen} for each in found.local_directories
    ]
    return json.dumps({**asdict(found), "local_directories": directories}, indent=2)


def _show_local(entry: LocalDirectory, chosen: bool) -> str:
    used = "used; `fanstore run` makes it" if entry.is_missing else "used"
    verdict = used if chosen else entry.refusal or "not needed"
    free = f"{entry.free_bytes / (1 << 30):,.1f} GiB free"
    return f"  {entry.source}: {entry.path} ({entry.fs_type}, {free}): {verdict}"


def _show_table(title: str, table: Mapping[str, object], absent: str = "not found") -> None:
    click.echo(f"{title}:")
    for name, value in table.items():
        click.echo(f"  {name.replace('_', ' ')}: {absent if value is None else value}")


def _show(found: DoctorFindings) -> None:
    click.echo(found.platform)
    for problem in found.problems:
        click.echo(f"problem: {problem}")
    _show_table("libraries", found.libraries)
    _show_table("codecs", found.codecs)
    _show_table("mpi", found.mpi)
    _show_table("containers", found.containers)
    _show_table("limits", found.limits, absent="unlimited")
    click.echo("local directories, in the order they are tried:")
    for entry in found.local_directories:
        click.echo(_show_local(entry.directory, entry.chosen))
    click.echo(f"mount prefix where none is given: {found.mount_prefix}")
    click.echo(f"settings (file: {found.settings_file}):")
    given = [each for each in found.settings if each.source != "default"]
    for setting in given:
        click.echo(f"  {setting.name:<19}{setting.value!s:<10} from {setting.source}")
        click.echo(f"  {'':<19}{setting.meaning}")
    others = len(found.settings) - len(given)
    click.echo(f"  {others} others have their defaults; --json shows them, and their variables")


def check_programs(programs: Sequence[str]) -> list[Verdict]:
    """Returns the mode that each program needs, and the reasons."""
    from fanstore._native import preload_path
    from fanstore.programs.check import check, glibc_needed

    needed = glibc_needed(os.fspath(preload_path()))
    return [check(program, needed) for program in programs]


def _readable(text: str) -> str:
    """Returns a text without bytes that a terminal cannot show."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _show_verdict(verdict: Verdict) -> None:
    click.echo(f"{_readable(verdict.program)}: {verdict.mode.value}")
    way = " -> ".join([verdict.path or "", *verdict.through])
    if way not in ("", verdict.program):
        click.echo(f"  {_readable(way)}")
    for reason in verdict.reasons:
        click.echo(f"  {_readable(reason)}")


def _check(programs: Sequence[str], as_json: bool) -> int:
    verdicts = check_programs(programs)
    if as_json:
        rows = [{**asdict(verdict), "mode": verdict.mode.value} for verdict in verdicts]
        click.echo(json.dumps(rows, indent=2))
    else:
        for verdict in verdicts:
            _show_verdict(verdict)
    return max(verdict.exit_code for verdict in verdicts)


def _forecast(paths: Sequence[str], as_json: bool) -> int:
    from fanstore.cli.local import local_of
    from fanstore.node.segment import default_lanes
    from fanstore.staging.budget import budget_of
    from fanstore.staging.forecast import forecast, forecast_lines

    settings = config.resolve()
    directory = local_of(settings)
    tables_bytes = default_lanes(notes=settings.trace != "off").size_bytes()
    budget = replace(budget_of(settings, directory), tables_bytes=tables_bytes)
    found = [forecast(path, directory, settings.local_bytes, budget) for path in paths]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        click.echo("\n".join(line for each in found for line in forecast_lines(each)))
        if len(found) > 1:
            click.echo("each is judged alone; a job with all of them needs their room together")
    return 0


@click.command()
@click.option("--check", is_flag=True, help="Say which mode each PROGRAM needs, and why.")
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="DIR",
    help="Say how much of a dataset has room on this node.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.argument("programs", nargs=-1, metavar="[PROGRAM...]")
def command(
    check: bool, datasets: tuple[str, ...], as_json: bool, programs: tuple[str, ...]
) -> int:
    """Say what FanStore found on this machine, and show every setting with its source. The exit
    code is 1 when a setting makes no sense.

    With --check, say of each PROGRAM whether `fanstore run` reaches it as it is ("preload"), needs
    --trap, or reaches it in neither way. The exit code is 0, 3 or 4, 126 for a program that cannot
    be executed, 127 for one that was not found; the highest of all.

    With --dataset, say how much of it a job would stage or keep on a node like this one.

    \b
    Examples:
      fanstore doctor
      fanstore doctor --check ./train
    """
    if check != bool(programs):
        raise click.UsageError("--check and its PROGRAMs go together")
    if check and datasets:
        raise click.UsageError("--check and --dataset are two questions")
    if datasets:
        return _forecast(datasets, as_json)
    if check:
        return _check(programs, as_json)
    found = examine_all()
    if as_json:
        click.echo(_as_json(found))
    else:
        _show(found)
    return 1 if found.problems else 0
