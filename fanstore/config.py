"""The table of settings, and where each value comes from.

The first of these that has a value decides: the command line, ``FANSTORE_<NAME>`` in the
environment, the TOML file (``$FANSTORE_CONFIG``, else ``~/.config/fanstore.toml``), the default."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fanstore.errors import FanstoreError, UsageError
from fanstore.wording import a_guess


@dataclass(frozen=True)
class Setting:
    """One setting: its name (also the TOML key), kind (bool, int, float or str), default.

    meaning: a sentence for users, also the help text of its option. option: the option's flag and
    values, such as "--stage full|plan"; "" if `run` and `start` have no such option. form: for a
    str, the regular expression that it must match; for an int, "bytes" allows units such as 64M.
    least, most: the bounds of a number.
    """

    name: str
    kind: type
    default: Any
    meaning: str
    option: str
    form: str
    least: float
    most: float

    @property
    def variable(self) -> str:
        """The environment variable that sets this setting."""
        return "FANSTORE_" + self.name.upper()

    @property
    def flag(self) -> str:
        """The flag of its option, which some settings have only in other commands than `run` and
        `start`."""
        return self.option.partition(" ")[0] or "--" + self.name.replace("_", "-")


def _setting(
    default: Any,
    meaning: str,
    option: str = "",
    form: str = "",
    least: float = 0,
    most: float = 1e6,
) -> Any:
    """Returns a field of Settings; its metadata are its entry in the table of settings."""
    return field(metadata={
        "default": default, "meaning": meaning, "option": option, "form": form, "least": least,
        "most": most,
    })  # fmt: skip


CACHE_LEAST_BYTES = 10 << 20  # for eight blocks and the cache's tables


@dataclass(frozen=True)
class Settings:
    """The table of settings, and their values; ``sources`` says for each name where the value comes
    from. Options are listed in this order."""

    sources: Mapping[str, str]
    local_dir: str | None = _setting(
        None,
        "Directory on the node's own disk for what FanStore copies; made if it is missing "
        "[default: searched].",
        "--local-dir DIR",
    )
    output_dir: str = _setting(
        "./fanstore-output",
        "Directory, or s3://BUCKET/PREFIX, for the files that CMD writes under a PREFIX; made with "
        "the first output "
        "[default: ./fanstore-output].",
        "--output-dir DIR",
    )
    partial_outputs: str = _setting(
        "keep",
        "What a killed program was writing: keep it as NAME.partial, or drop it.",
        form="keep|drop",
    )
    continue_outputs: bool = _setting(
        False,
        "Continue with the files in the output directory: CMD finds them under PREFIX.",
        "--continue",
    )
    in_place: bool = _setting(False, "Read a dataset's packs in place; copy nothing.", "--in-place")
    verify: bool = _setting(False, "Check all content before serving, also in place.", "--verify")
    keep_staged: bool = _setting(False, "Leave what was copied for the next job.", "--keep-staged")
    stage_threads: int = _setting(8, "Packs copied at the same time.", least=1)
    orphan_wait_s: float = _setting(30.0, "How long a command may outlive a killed wrapper.")
    stage: str = _setting(
        "auto",
        "Stage everything before the command starts (full); while it runs, as far as the nodes "
        "have room (plan); the same, at the first read of a file (lazy); or in memory, as far "
        "as it fits (memory) [default: full if everything fits, else plan].",
        "--stage full|plan|lazy|memory", form="auto|full|plan|lazy|memory",
    )  # fmt: skip
    replicas: str = _setting(
        "auto",
        "Number of nodes that keep each pack before the command starts; auto: one, and others copy "
        "what they have room for while the job runs [default: auto].",
        "--replicas R|auto|all", form="[1-9][0-9]*|auto|all",
    )  # fmt: skip
    local_bytes: int | None = _setting(
        None,
        "The most that a node keeps of the datasets on its local disk [default: the free "
        "space].",
        "--local-bytes BYTES|auto", form="bytes", most=1 << 60,
    )  # fmt: skip
    memory_bytes: int | None = _setting(
        None,
        "The most memory that a rank uses on its node: for the block cache, and for staged "
        "files if the local directory is in memory [default: half of what is left].",
        "--memory-bytes BYTES|auto", form="bytes", least=CACHE_LEAST_BYTES, most=1 << 46,
    )  # fmt: skip
    cache_bytes: int | None = _setting(
        None,
        "Content that a node keeps of remote files in memory [default: the smaller of 1 GiB and a "
        "fifth of --memory-bytes].",
        "--cache-bytes BYTES|auto", form="bytes", least=CACHE_LEAST_BYTES, most=1 << 46,
    )  # fmt: skip
    cache_policy: str = _setting(
        "belady",
        "Drop a block at its file's last close (close), when "
        "room is needed (lru, random), never (minio), or for one that is read again sooner, "
        "where the order is known (belady) [default: belady].",
        "--cache-policy close|lru|random|minio|belady",
        form="close|lru|random|minio|belady",
    )
    deadline_s: float = _setting(
        10.0, "How long another node may take for one request.", least=0.001
    )
    shared_deadline_s: float = _setting(
        300.0,
        "How long the shared file system may take for one read of the node daemon.",
        least=0.001, most=600,
    )  # fmt: skip
    bucket_requests_per_s: float = _setting(
        0.0,
        "The most requests that the job, in equal shares of its ranks, sends to buckets a second "
        "[default: 0, any].", "--bucket-requests-per-s N",
    )  # fmt: skip
    bucket_bytes_per_s: int = _setting(
        0, "The same for the bytes of objects [default: 0, any].", "--bucket-bytes-per-s BYTES",
        form="bytes", most=1 << 60,
    )  # fmt: skip
    neighbours: bool = _setting(
        True,
        "Read what other ranks of this node have staged as if it were this rank's own, and share "
        "one block cache with other jobs of this node.",
    )
    maps: bool = _setting(
        True, "Map large files of other nodes by need, through FUSE, if this node allows it."
    )
    peer_wait_s: float = _setting(30.0, "How long staging waits for a silent node.", least=1)
    output_wait_s: float = _setting(
        4.0, "How long, at the end, to retry an output that cannot be written to its directory."
    )
    trace: str = _setting(
        "on",
        "Trace the opens and waits of programs: the newest in memory (on), only counts (off), "
        "or all, kept in FILE [default: on].",
        "--trace on|off|FILE", form="on|off|.+",
    )  # fmt: skip
    order: str = _setting(
        "auto",
        "Fetch files before the command opens them: those that its loaders announce, and "
        "orders that repeat (auto); those that torch's DataLoaders announce (torch); or those "
        "in FILE, in that order, a path a line [default: auto].",
        "--order auto|off|torch|FILE", form="auto|off|torch|.+",
    )  # fmt: skip
    keep_learnt: bool = _setting(
        True,
        "Keep for later jobs what was learnt about the reads of a dataset: beside the dataset if "
        "that can be written, else in ~/.cache/fanstore.",
    )
    metrics_port: int | None = _setting(
        None,
        "Serve Prometheus metrics at this TCP port of 127.0.0.1; further ranks of a host "
        "take the next ones; 0: any free port [default: none].",
        "--metrics-port PORT", most=65535,
    )  # fmt: skip
    metrics_address: str = _setting(
        "127.0.0.1",
        "The address of that port; 0.0.0.0 for all addresses of this node [default: 127.0.0.1].",
        "--metrics-address ADDRESS",
    )
    report: str = _setting(
        "",
        "At the end write a page with plots of the waits of ranks and programs, and beside it "
        "JSON and the trace [default: none].",
        "--report DIR|FILE.html", form=".+",
    )  # fmt: skip
    keep_mpi_env: bool = _setting(
        False, "Leave the launcher's MPI variables to the command.", "--keep-mpi-env"
    )
    quiet: bool = _setting(False, "No progress and no summary on stderr.", "--quiet")
    trap: bool = _setting(False, "Serve programs that no library can enter, too (run, exec).")


_KINDS = {"bool": bool, "int": int, "float": float, "str": str}
SETTINGS = tuple(
    Setting(each.name, _KINDS[str(each.type).removesuffix(" | None")], **each.metadata)
    for each in fields(Settings)
    if each.metadata
)
_BY_NAME = {setting.name: setting for setting in SETTINGS}

_WORDS = {"1": True, "true": True, "yes": True, "on": True}
_WORDS |= {"0": False, "false": False, "no": False, "off": False, "": False}


_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def parse_bytes(text: str) -> int:
    """Returns the number of bytes in a text such as 65536, 64K, 1MiB or 2T. Raises ValueError."""
    match = re.fullmatch(r"([0-9]+)\s*([kmgt]?)(i?b)?", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is no number of bytes such as 64K, 1MiB or 2T")
    return int(match[1]) * _UNITS[match[2]]


def _may_be_worked_out(setting: Setting) -> bool:
    return setting.form == "bytes" and setting.default is None


def _from_text(setting: Setting, text: str) -> Any:
    if setting.form == "bytes":
        return parse_bytes(text)
    if setting.kind is bool:
        return _WORDS[text.strip().lower()]
    return setting.kind(text)


def _parse(setting: Setting, value: Any, source: str) -> Any:
    """Returns a value converted to the setting's kind; None for "auto", if FanStore may choose.
    Raises UsageError, which names the source, if the value is not valid."""
    if value == "auto" and _may_be_worked_out(setting):
        return None
    given = value
    try:
        if isinstance(value, str) and setting.kind is not str:
            value = _from_text(setting, value)
        if setting.kind is float and type(value) is int:
            value = float(value)
        if type(value) is not setting.kind or not _fits(setting, value):
            raise ValueError
    except (KeyError, ValueError):
        where = spoken(source, setting.name)
        where = where if source == "flag" else f"{setting.name} from {where}"
        raise UsageError(f"{where}: {given!r} is not {_wanted(setting)}") from None
    return value


def spoken(source: str, name: str) -> str:
    """Returns the words with which a message names the source of a setting's value."""
    return _BY_NAME[name].flag if source == "flag" else source


def _fits(setting: Setting, value: Any) -> bool:
    if setting.kind is str:
        return not setting.form or re.fullmatch(setting.form, value) is not None
    return setting.kind is bool or setting.least <= value <= setting.most


def _wanted(setting: Setting) -> str:
    """Returns the words with which a message describes the valid values of a setting."""
    if setting.form == "bytes":
        auto = ", or auto" if _may_be_worked_out(setting) else ""
        return f"a number of bytes from {setting.least:,} to {setting.most:,}, such as 64M{auto}"
    if setting.kind in (int, float):
        kind = "a whole number" if setting.kind is int else "a number"
        return f"{kind} from {setting.least:g} to {setting.most:,.0f}"
    form = setting.form.replace("[1-9][0-9]*", "a number from 1 on")
    words = form.replace(".+", "the name of a file without new lines").split("|")
    if not setting.form:
        return f"a valid {setting.kind.__name__}"
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def config_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Returns the path of the TOML file, which need not exist."""
    named = environ.get("FANSTORE_CONFIG")
    return Path(named) if named else Path("~/.config/fanstore.toml").expanduser()


def cache_folder() -> Path:
    """Returns $XDG_CACHE_HOME/fanstore, else ~/.cache/fanstore; it may not exist. Raises
    FanstoreError if the user has no home directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        raise FanstoreError("there is no home directory to keep files in: set XDG_CACHE_HOME")
    return Path(base) / "fanstore"


def load_toml(path: Path) -> dict[str, Any]:
    """Returns the content of a TOML file. Raises UsageError if it is not TOML."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        with path.open("rb") as stream:
            table: dict[str, Any] = tomllib.load(stream)
            return table
    except ValueError as error:  # no TOML, or no UTF-8
        raise UsageError(f"{path}: {error}") from None


def read_config_file(environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Returns the TOML file's settings; {} if there is no such file. Raises UsageError."""
    path = config_file(environ)
    if not os.path.isfile(path):  # also False in a home directory that this user may not read
        if environ.get("FANSTORE_CONFIG") not in (None, "", os.devnull):
            raise UsageError(f"FANSTORE_CONFIG names {path}, which is not a file")
        return {}
    return load_toml(path)


def _unknown_keys(table: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Returns a message for each unknown name in the TOML file."""
    names = [setting.name for setting in SETTINGS]
    return [
        f"{config_file(environ)}: unknown setting {name}{a_guess(name, names)}"
        for name in sorted(set(table) - set(names))
    ]


def resolve(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] = os.environ
) -> Settings:
    """Returns the value and source of every setting. `flags` has no entry, or None, for a flag that
    was not given. Raises UsageError."""
    table = read_config_file(environ)
    if unknown := _unknown_keys(table, environ):
        raise UsageError(unknown[0])
    return _resolved(flags or {}, environ, table, None)


def resolve_all(environ: Mapping[str, str] = os.environ) -> tuple[Settings, list[str]]:
    """Like `resolve` without flags, but returns all problems as lines of text and raises none. A
    setting whose value is not valid gets its default."""
    problems: list[str] = []
    table: dict[str, Any] = {}
    try:
        table = read_config_file(environ)
    except (UsageError, OSError) as error:
        problems.append(str(error))
    problems += _unknown_keys(table, environ)
    return _resolved({}, environ, table, problems), problems


def _resolved(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    table: Mapping[str, Any],
    problems: list[str] | None,
) -> Settings:
    """problems: gets a line for each value that is not valid; if None, the first such value raises
    UsageError."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in SETTINGS:
        value, source = _found(setting, flags, environ, table)
        try:
            value = value if source == "default" else _parse(setting, value, source)
        except UsageError as error:
            if problems is None:
                raise
            problems.append(str(error))
            value, source = setting.default, "default"
        values[setting.name], sources[setting.name] = value, source
    return Settings(**values, sources=sources)


def _found(
    setting: Setting,
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    table: Mapping[str, Any],
) -> tuple[Any, str]:
    """Returns a setting's value from the first source that has it, not yet converted, and that
    source."""
    if flags.get(setting.name) is not None:
        return flags[setting.name], "flag"
    if setting.variable in environ:
        return environ[setting.variable], setting.variable
    if setting.name in table:
        return table[setting.name], str(config_file(environ))
    return setting.default, "default"


# Variables FANSTORE_* that FanStore uses, but that are no settings.
_OWN_VARIABLES = (
    "CONFIG", "JOB_DIR", "RANK", "WORLD_SIZE", "FDS", "OFF", "ADDED", "REDIRECT", "LOG_CALLS",
    "BUILD_VERBOSE",
)  # fmt: skip
_OWN_VARIABLE = re.compile(rf"FANSTORE_({'|'.join(_OWN_VARIABLES)}|MOUNT_PREFIX(_[0-9]+)?)")


def unknown_variables(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Returns a line for each unknown variable FANSTORE_* in the environment, with the name that
    was probably meant."""
    known = [setting.variable for setting in SETTINGS]
    unknown = [n for n in environ if n.startswith("FANSTORE_") and n not in known]
    return [n + a_guess(n, known) for n in sorted(unknown) if not _OWN_VARIABLE.fullmatch(n)]
