"""Makes the environment in which a command sees the mounts."""

from __future__ import annotations

from collections.abc import Mapping

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
