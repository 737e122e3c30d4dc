"""The environment in which a command sees the mounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def command_environment(
    environ: Mapping[str, str], preload: str, job_directory: str, prefixes: Sequence[str]
) -> dict[str, str]:
    """`environ` with the preload (ours first), the job and the mount prefixes.

    FANSTORE_MOUNT_PREFIX is the first prefix; further ones are FANSTORE_MOUNT_PREFIX_2 ...
    """
    inherited = [
        name
        for name in environ.get("LD_PRELOAD", "").replace(":", " ").split()
        if name.rpartition("/")[2] != preload.rpartition("/")[2]
    ]
    changed = {name: value for name, value in environ.items() if not _is_prefix(name)}
    changed["LD_PRELOAD"] = ":".join([preload, *inherited])
    changed["FANSTORE_JOB_DIR"] = job_directory
    for number, prefix in enumerate(prefixes, 1):
        suffix = "" if number == 1 else f"_{number}"
        changed[f"FANSTORE_MOUNT_PREFIX{suffix}"] = prefix
    return changed


def _is_prefix(name: str) -> bool:
    return name == "FANSTORE_MOUNT_PREFIX" or name.startswith("FANSTORE_MOUNT_PREFIX_")
