"""The site file: the settings that the job scripts of a cluster share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fanstore.config import load_toml
from fanstore.errors import UsageError


@dataclass(frozen=True)
class Site:
    """The settings of a cluster, from its TOML file. Each field is a key of that file."""

    modules: tuple[str, ...] = ()
    mpi: str = "pmi2"
    mpiexec: tuple[str, ...] = ()
    local_dir: str | None = None
    sbatch: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()


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
