"""Makes the environment in which a command sees the mounts, by the preload library or under seccomp
(`--trap`), for programs that the library cannot enter."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from fanstore._native import trap_path
from fanstore.launch import report
from fanstore.messages.job import JobDescription


def command_environment(environ: Mapping[str, str], job: JobDescription) -> dict[str, str]:
    """Returns `environ` with the preload library (ours first), the job, its ranks and the mount
    prefixes.

    FANSTORE_MOUNT_PREFIX is the first prefix; further ones are FANSTORE_MOUNT_PREFIX_2 ...
    """
    preload = job.preload
    inherited = [
        name
        for name in environ.get("LD_PRELOAD", "").replace(":", " ").split()
        if name.rpartition("/")[2] != preload.rpartition("/")[2]
    ]
    dropped = ("FANSTORE_OFF", "FANSTORE_ADDED")  # a command that a job starts belongs to it
    changed = {
        name: value
        for name, value in environ.items()
        if not _is_prefix(name) and name not in dropped
    }
    changed["LD_PRELOAD"] = ":".join([preload, *inherited])
    changed["FANSTORE_JOB_DIR"] = job.job_directory
    changed["FANSTORE_RANK"] = str(job.rank)
    changed["FANSTORE_WORLD_SIZE"] = str(job.world_size)
    for number, dataset in enumerate(job.datasets, 1):
        suffix = "" if number == 1 else f"_{number}"
        changed[f"FANSTORE_MOUNT_PREFIX{suffix}"] = dataset.mount_prefix
    return changed


def _is_prefix(name: str) -> bool:
    return name == "FANSTORE_MOUNT_PREFIX" or name.startswith("FANSTORE_MOUNT_PREFIX_")


def trapped(command: Sequence[str], environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Returns the command and environment that start `command` under csrc/trap's supervisor. The
    supervisor contains the code of the preload library, so it does not preload it; the command
    does. Raises FanstoreError if the supervisor was not built."""
    own = dict(environ)
    preload = own.pop("LD_PRELOAD", "")
    return [os.fspath(trap_path()), report.speaker(), preload, *command], own
