"""Starts a command in a container, with the paths and variables that it needs to see the mounts.

The program that makes the container stays outside of the job: it gets neither the library nor the
job's variables. `env` sets the variables inside, because containers differ in how much of the
environment they inherit."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fanstore.errors import UsageError
from fanstore.launch.environment import command_environment
from fanstore.messages.job import JobDescription

# Variables that add paths to a container, from the manuals: apptainer-exec(1), "--bind"; bwrap(1);
# podman-run(1), "--volume".
_BY_VARIABLE = {"apptainer": "APPTAINER_BIND", "singularity": "SINGULARITY_BIND"}
KNOWN = (*_BY_VARIABLE, "bwrap", "podman")
_OURS = ("LD_PRELOAD", "FANSTORE_")


@dataclass(frozen=True)
class Container:
    """A container. `words` are the words that start a command in it when they precede the
    command."""

    words: tuple[str, ...]

    def program(self) -> str:
        return os.path.basename(self.words[0])

    def environ(self, environ: Mapping[str, str], paths: Sequence[str]) -> dict[str, str]:
        """Returns the environment for the program that makes the container; it makes `paths`
        visible."""
        kept = {name: value for name, value in environ.items() if not name.startswith(_OURS)}
        variable = _BY_VARIABLE.get(self.program())
        if variable is not None:
            kept[variable] = ",".join(filter(None, [environ.get(variable, ""), *paths]))
        return kept

    def command(self, command: Sequence[str], job: JobDescription) -> list[str]:
        """Returns the command line that runs `command` in the container, under the job."""
        inside = command_environment({}, job)
        settings = [f"{name}={value}" for name, value in sorted(inside.items())]
        return [*self._entered(needed_paths(job)), "env", *settings, *command]

    def _entered(self, paths: Sequence[str]) -> list[str]:
        first, *rest = self.words
        if self.program() == "bwrap":
            return [first, *rest, *(word for path in paths for word in ("--bind", path, path))]
        if self.program() == "podman" and rest[:1] == ["run"]:
            binds = [word for path in paths for word in ("--volume", f"{path}:{path}")]
            return [first, "run", *binds, *rest[1:]]
        return list(self.words)


def container_of(text: str) -> Container:
    """Returns the container that the shell command line `text` starts. Raises UsageError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"--container {text!r}: {error}") from error
    if not words:
        raise UsageError("--container: names no program, such as 'apptainer exec IMAGE'")
    return Container(tuple(words))


def library_folders(preload: str) -> set[str]:
    """Returns the folders of the preload library, and of the file that it links to: it is a link if
    the path of the file cannot be in LD_PRELOAD."""
    return {os.path.dirname(preload), os.path.dirname(os.path.realpath(preload))}


def needed_paths(job: JobDescription) -> list[str]:
    """Returns the paths that must be the same inside and outside of the container: the job's
    directory and the staged packs, the library, existing mount prefixes, and datasets that are read
    in place."""
    local = os.path.dirname(os.path.dirname(job.job_directory))
    paths = {local, *library_folders(job.preload)}
    for dataset in job.datasets:
        if os.path.isdir(dataset.mount_prefix):
            paths.add(dataset.mount_prefix)
        if dataset.in_place:
            paths.add(dataset.directory)
    return sorted(paths)
