"""The directory of one job, and the removal of everything that no job uses any more.

jobs/<job id>/lock         held shared by the node daemon and the wrapper
              job.json     for people and `fanstore status`
              segment      what clients map (csrc/format/shm_format.h)
              placeholder  the dangling link behind every virtual descriptor
              sock         the daemon's socket
              live         the socket for watchers (HTTP, fanstore/watch/answers.py)
              coordinate   the socket of jobs that share batches (fanstore/coordinate)
              outputs      the socket for questions about outputs (csrc/format/output_format.h)
              order        the socket for announcements (fanstore/foresight/announcement.py)
              in_job       a link to fanstore/in_job, the code that runs in Python programs
              order-notes  why programs announce nothing
              doubted      there once the list of a dataset's files has proved wrong
              refused-writes  which inputs programs tried to change
              out/<n>      the tree of outputs of the n-th mount
              placed       which of them are in the output directory
              copies/      outputs of other ranks, fetched
              code/<n>     programs and libraries of the n-th mount that were loaded
              tree/<n>     real directories for the n-th mount, if they are not in its prefix
              log          the daemon's own stderr once it serves
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from fanstore.messages.job import JobDescription
from fanstore.messages.message import encode
from fanstore.node.prefix import sweep_prefixes
from fanstore.node.segment import mark_ended
from fanstore.outputs.tree.dead_job import TREES, Rescued, needs_rescue, rescue
from fanstore.staging import locks
from fanstore.staging.base import StagingFolder
from fanstore.staging.staged import sweep_datasets

PLACEHOLDER_TARGET = "fanstore-virtual-file"
_NEEDED = ("segment", "placeholder", "sock", TREES)


class JobDirectory:
    """A job's directory while this process holds it."""

    def __init__(self, base: StagingFolder) -> None:
        self.job_id = os.urandom(4).hex()
        self._base_path = base.path
        self.path = os.path.join(base.folder("jobs"), self.job_id)
        self.lock_path = os.path.join(self.path, "lock")
        self._fd: int | None = None
        self._kept: int | None = None

    def make(self) -> None:
        """Creates the directory and takes its lock. The caller holds the base's lock."""
        os.mkdir(self.path, 0o700)
        self._fd = locks.take(self.lock_path, exclusive=False)
        # systemd-tmpfiles leaves a locked directory and everything below it alone, whatever its
        # age.
        self._kept = os.open(self._base_path, os.O_RDONLY | os.O_DIRECTORY)
        locks.try_lock(self._kept, exclusive=False)
        os.symlink(PLACEHOLDER_TARGET, os.path.join(self.path, "placeholder"))
        self.describe(None)

    def file(self, *names: str) -> str:
        """Returns a path inside the directory."""
        return os.path.join(self.path, *names)

    def removed(self) -> list[str]:
        """Returns the names of files that clients need and that are gone: cleaners of /tmp remove
        them."""
        return [name for name in _NEEDED if not os.path.lexists(self.file(name))]

    def raw_calls(self) -> list[str]:
        """Returns the programs and libraries whose own system calls a client could not redirect
        (csrc/preload/syscall/raw.c)."""
        return self._notes("raw-calls")

    def order_notes(self) -> list[str]:
        """Returns why Python programs do not announce what they will read
        (csrc/preload/loading/python_hook.c)."""
        return self._notes("order-notes")

    def refused_writes(self) -> list[str]:
        """Returns the mount and the record of the input that each program tried to change first
        (csrc/client/outputs/change.c)."""
        return self._notes("refused-writes")

    def _notes(self, name: str) -> list[str]:
        try:
            text = Path(self.file(name)).read_text("utf-8", "surrogateescape")
        except FileNotFoundError:
            return []
        return list(dict.fromkeys(text.splitlines()))

    def describe(self, about: JobDescription | None) -> None:
        """Writes job.json. about: the job's description, None if it is not known yet."""
        own: dict[str, object] = {"job_id": self.job_id, "daemon_pid": os.getpid()}
        own["slurm_job"] = os.environ.get("SLURM_JOB_ID", "")
        if about is not None:
            own |= encode(about)
        temporary = self.file("job.json.part")
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(own, stream)
        os.rename(temporary, self.file("job.json"))

    def release(self) -> None:
        """Releases the lock; the next sweep removes the directory."""
        for fd in (self._fd, self._kept):
            if fd is not None:
                os.close(fd)
        self._fd = self._kept = None


def sweep(base: StagingFolder) -> list[str]:
    """Removes all jobs, prefixes and staged datasets that no process holds. The caller holds the
    base's lock. Keeps a job whose outputs have not been copied yet: see `rescue_dead`. Returns the
    names of files in FanStore's prefixes that belong to others; they stay."""
    for path in base.entries("jobs"):
        with contextlib.suppress(OSError), locks.free(os.path.join(path, "lock")) as unused:
            if unused and not needs_rescue(path):
                mark_ended(os.path.join(path, "segment"))
                base.discard(path)
    left = sweep_prefixes(base)
    sweep_datasets(base)
    return left


def rescue_dead(
    base: StagingFolder,
    only: str | None = None,
    given_up: Callable[[], bool] = lambda: False,
) -> list[Rescued]:
    """Brings outputs of dead jobs, or of the job directory `only`, to their output directories or
    into `unstaged`. Copying ends once `given_up` returns true. Do not call it under the base's
    lock: it may take long."""
    done = []
    for path in base.entries("jobs") if only is None else [only]:
        with contextlib.suppress(OSError), locks.free(os.path.join(path, "lock")) as unused:
            if unused and needs_rescue(path):
                found = rescue(path, given_up)
                done += [found] if found is not None else []
    return done


def clean_up(base: StagingFolder) -> list[str]:
    """Takes the base's lock and calls `sweep`. For a job that has released all its own locks."""
    with base.locked():
        left = sweep(base)
    base.empty_trash()
    with base.locked():
        base.remove_if_empty()
    return left


def clean_up_directory(local_dir: str) -> list[str]:
    """Calls `clean_up` for the base of each user in a local directory."""
    base = StagingFolder(local_dir)
    return clean_up(base) if os.path.lexists(base.path) else []


def rescue_job(
    job_directory: str, given_up: Callable[[], bool] = lambda: False, hangs: bool = False
) -> list[Rescued]:
    """Calls `rescue_dead` for one job, whose directory may be gone. hangs: the job's daemon was
    killed, but hangs in the kernel: it still holds the job's lock and does nothing more."""
    if not os.path.lexists(job_directory):
        return []
    if hangs:
        found = rescue(job_directory, given_up) if needs_rescue(job_directory) else None
        return [] if found is None else [found]
    local_base = os.path.dirname(os.path.dirname(job_directory))
    return rescue_dead(StagingFolder(os.path.dirname(local_base)), job_directory, given_up)
