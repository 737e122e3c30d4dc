"""Refuses a job inside a job: a program belongs to only one job, and the inner job's mounts would
hide those of the outer."""

from __future__ import annotations

import os
from collections.abc import Mapping

from fanstore.errors import FanstoreError
from fanstore.staging import locks


def refuse_nesting(environ: Mapping[str, str]) -> None:
    """Raises FanstoreError inside a job that is alive, unless FANSTORE_OFF is set. (A job that has
    ended may have left its variables.)"""
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
    except OSError:  # another user's, whose mounts are not seen here anyway
        return False
