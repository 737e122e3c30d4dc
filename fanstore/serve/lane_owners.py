"""Which lanes of the access trace have lost their owner: a thread of any process, in this PID
namespace or in another one."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

_FIRST_SPACE = 0xEFFFFFFC  # of the machine: from there all processes are seen (linux/proc_ns.h)
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Owner:
    """Whose a lane is. process: its program's number; space: the inode number of the PID namespace
    in which pid and tid count, 0: unknown; claimed_ns: when, CLOCK_MONOTONIC."""

    process: int
    space: int
    pid: int
    tid: int
    claimed_ns: int


class Census:
    """Finds owners that have ended. It is asked again and again, and remembers what it saw of other
    PID namespaces."""

    def __init__(self) -> None:
        self._space = _space_of("self")
        self._seen: dict[Owner, str] = {}

    def ended(self, owners: Iterable[Owner]) -> set[Owner]:
        """Returns those that will write no more. One that cannot be seen from here counts as
        alive."""
        owners = list(owners)
        latest: dict[tuple[int, int, int], int] = {}
        for owner in owners:
            thread = (owner.space, owner.pid, owner.tid)
            latest[thread] = max(latest.get(thread, 0), owner.process)
        replaced = {  # by exec: the thread has another lane by now
            each for each in owners if each.process < latest[each.space, each.pid, each.tid]
        }
        here = {each for each in owners if each.space == self._space != 0} - replaced
        away = {each for each in owners if each.space not in (0, self._space)} - replaced
        gone = {each for each in here if not _lives(f"{each.pid}/task/{each.tid}", each.claimed_ns)}
        return replaced | gone | (self._ended_away(away) if away else set())

    def _ended_away(self, owners: set[Owner]) -> set[Owner]:
        """Does the same for owners in other PID namespaces, which have other numbers here."""
        self._seen = {owner: at for owner, at in self._seen.items() if owner in owners}
        places = _threads_of({owner.space for owner in owners})
        ended = set()
        for owner in owners:
            at = places.get((owner.space, owner.pid, owner.tid))
            if at is not None:
                self._seen[owner] = at
            elif owner in self._seen or self._space == _FIRST_SPACE:
                ended.add(owner)
        return ended


def _space_of(pid: str) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino
    except OSError:
        return 0


def _lives(thread: str, claimed_ns: int) -> bool:
    """Tells whether a thread (PID/task/TID) runs, and is none that got its number after
    claimed_ns."""
    try:
        with open(f"/proc/{thread}/stat", "rb") as stream:
            fields = stream.read().rpartition(b") ")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True
    started_ns = int(fields[19]) * _TICK_NS - _asleep_ns()
    return fields[0] not in (b"Z", b"X") and started_ns <= claimed_ns + _TICK_NS


def _asleep_ns() -> int:
    """Returns how long the machine was suspended: what CLOCK_BOOTTIME counts, too."""
    boot_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return max(0, boot_ns - time.monotonic_ns())


def _threads_of(spaces: set[int]) -> dict[tuple[int, int, int], str]:
    """Returns the threads of some PID namespaces by (namespace, pid, tid), as these are there."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or _space_of(entry.name) not in spaces:
            continue
        space = _space_of(entry.name)
        with contextlib.suppress(OSError):
            for tid in os.listdir(f"/proc/{entry.name}/task"):
                at = f"{entry.name}/task/{tid}"
                numbers = _numbers_there(at)
                if numbers is not None:
                    pid, own_tid = numbers
                    found[space, pid, own_tid] = at
    return found


def _numbers_there(thread: str) -> tuple[int, int] | None:
    """Returns the pid and tid that a thread has in its own PID namespace; None of one that has
    ended."""
    fields = {}
    with contextlib.suppress(OSError), open(f"/proc/{thread}/status", encoding="latin-1") as status:
        for line in status:
            name, _, value = line.partition(":")
            fields[name] = value.split()
    if not fields.get("NStgid") or not fields.get("NSpid") or fields["State"][0] in "ZX":
        return None
    return int(fields["NStgid"][-1]), int(fields["NSpid"][-1])
