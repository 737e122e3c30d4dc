"""Chooses the local directory according to options, environment and settings file."""

from __future__ import annotations

import os

from fanstore import config
from fanstore.errors import UsageError
from fanstore.launcher import detect, for_rank
from fanstore.staging.local_dir import MEMORY_DIR, LocalDirectory, choose


def local_of(settings: config.Settings) -> LocalDirectory:
    """Returns the local directory; with `--stage memory`, one in memory. Creates nothing. Raises as
    `choose` does, and UsageError if `--stage memory` was given and the directory is not in
    memory."""
    named, source = for_rank(settings.local_dir, detect(os.environ)), settings.sources["local_dir"]
    if settings.stage != "memory":
        return choose(named, source)
    stage = config.spoken(settings.sources["stage"], "stage")
    if named is None:
        local, where = choose(MEMORY_DIR, stage), "which it takes by itself"
    else:
        local, where = choose(named, source), config.spoken(source, "local_dir")
    if not local.in_memory:
        raise UsageError(
            f"{stage} memory: {local.path} ({where}) is on {local.fs_type}, not in memory; name a "
            "directory of a tmpfs with --local-dir"
        )
    return local
