"""One coordination in the daemon: its staging area (a memory file) and the settings that its jobs
agreed on."""

from __future__ import annotations

import os
from collections.abc import Iterable

from fanstore.coordinate.messages import CoordinationRefused, Join
from fanstore.coordinate.staging import Staging


class Group:
    """One coordination. Its memory file has no name and vanishes with the last process that holds
    it open."""

    def __init__(self, name: str, wanted: Join, pid: int, left_bytes: int) -> None:
        """wanted: the first job's request; left_bytes: memory that the staging area may use. Raises
        CoordinationRefused if that is too little, or if a number in the request is below 1."""
        self.name = name
        self.agreed = _agreement(wanted)
        self._first_pid = pid
        for key, value in _numbers(wanted).items():
            if value < 1:
                raise CoordinationRefused(f"{key} is {value}; allowed is 1 or more")
        self.slot_bytes = -(-wanted.batch_bytes // 4096) * 4096
        spare = wanted.jobs * wanted.workers
        window_bytes = wanted.window * self.slot_bytes
        if window_bytes > left_bytes:
            raise CoordinationRefused(
                f"the staging area of {name!r} takes {window_bytes:,} bytes of memory "
                f"({wanted.window} batches of {self.slot_bytes:,}), and {left_bytes:,} are "
                "left: give it fewer batches (window) or smaller ones"
            )
        self.wait_s = wanted.wait_s
        self.staging = Staging(wanted.jobs, wanted.batches, wanted.window, spare, wanted.deadline_s)
        self.pids: dict[int, int] = {}
        self.size_bytes = (wanted.window + spare) * self.slot_bytes
        self.fd = os.memfd_create("fanstore-coordinate", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self.fd, self.size_bytes)
            os.posix_fallocate(self.fd, 0, window_bytes)  # a missing page would kill a job later
        except OSError as error:
            os.close(self.fd)
            raise CoordinationRefused(
                f"a staging area of {window_bytes:,} bytes: {error.strerror}"
            ) from None

    def check(self, wanted: Join, pid: int) -> None:
        """Raises CoordinationRefused, which names the first difference, if the request of a job
        differs from the first job's."""
        theirs = _agreement(wanted)
        for key in sorted(theirs.keys() | self.agreed.keys()):
            if self.agreed.get(key) != theirs.get(key):
                raise CoordinationRefused(
                    f"{key} is {theirs.get(key)} in process {pid}, and {self.agreed.get(key)} in "
                    f"process {self._first_pid}: the jobs of {self.name!r} must agree"
                )

    def waits_for(self, begins: bool) -> str:
        """Returns a text that says which processes a member waits for. begins: it waits for an
        epoch to begin, not for a batch."""
        staging = self.staging
        if begins:
            if staging.epoch < 0 and staging.seen < staging.jobs:
                return f"{staging.seen} of {staging.jobs} jobs have joined"
            late = staging.members - staging.waiting
            return f"epoch {staging.epoch + 1} waits for {self._names(late)}"
        return f"a batch is not ready; the slowest are {self._names(staging.behind())}"

    def _names(self, members: Iterable[int]) -> str:
        return ", ".join(f"process {self.pids.get(m, 0)}" for m in sorted(members)) or "nobody"

    def close(self) -> None:
        """Closes this process's descriptor of the memory file."""
        os.close(self.fd)


def _numbers(wanted: Join) -> dict[str, int]:
    return {
        "jobs": wanted.jobs, "batches": wanted.batches, "batch_bytes": wanted.batch_bytes,
        "window": wanted.window, "workers": wanted.workers,
    }  # fmt: skip


def _agreement(wanted: Join) -> dict[str, str]:
    return {key: str(value) for key, value in _numbers(wanted).items()} | dict(wanted.fingerprint)
