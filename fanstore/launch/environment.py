"""Makes the environment in which a command sees the mounts, by the preload library or under seccomp
(`--trap`), for programs that the library cannot enter. Refuses a job inside a job: a program
belongs to only one job, and the mounts of the inner job would hide those of the outer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from fanstore._native import trap_path
from fanstore.errors import FanstoreError
from fanstore.launch import report
from fanstore.messages.job import JobDescription
from fanstore.staging import locks


def command_environment(environ: Mapping[str, str], job: JobDescription) -> dict[str, str]:
    """Returns `environ` with the preload library (in front of others), the variables of the job and
    its ranks, and the mount prefixes.

    FANSTORE_MOUNT_PREFIX is the first prefix; further ones are FANSTORE_MOUNT_PREFIX_2 ..."""
    preload = job.preload
    inherited = [
        name
        for name in environ.get("LD_PRELOAD", "").replace(":", " ").split()
        if name.rpartition("/")[2] != preload.rpartition("/")[2]
    ]
    # The command belongs to the job, even if its parent did not.
    dropped = ("FANSTORE_OFF", "FANSTORE_ADDED")
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
    """Returns the command and environment that run `command` under the supervisor in csrc/trap. The
    supervisor contains the code of the preload library, so only the command itself preloads the
    library. Raises FanstoreError if the supervisor was not built."""
    own = dict(environ)
    preload = own.pop("LD_PRELOAD", "")
    return [os.fspath(trap_path()), report.speaker(), preload, *command], own


def refuse_nesting(environ: Mapping[str, str]) -> None:
    """Raises FanstoreError inside a live job, unless FANSTORE_OFF is set. (A job that has ended may
    have left its variables.)"""
    is_outside = environ.get("FANSTORE_OFF", "0") not in ("", "0")
    job = "" if is_outside else environ.get("FANSTORE_JOB_DIR", "")
    if not job or not _is_alive(job):
        return
    raise FanstoreError(
        f"this is a command of a FanStore job already ({job}), whose mounts an inner one would "
        "hide; name every dataset in the outer `fanstore run` (--dataset may be given several "
        "times), or start this one outside of it: FANSTORE_OFF=1 fanstore run ..."
    )


def _is_alive(job: str) -> bool:
    try:
        with locks.free(os.path.join(job, "lock")) as unused:
            return not unused
    except OSError:  # a job of another user, whose mounts this process does not see
        return False
