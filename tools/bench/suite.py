"""Runs a plan: measures all rows in turn, into one report."""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import cold
import floors
from data import make_files
from mpi import find_mpiexec
from peers import PEERS, Absent, Peer, Place, prepare
from readers import ReaderEnded, compile_reader
from results import Report, Result
from rows import Case, Kind
from warm import Different, Settings, Warm, say

# Modules with rows of their own: KEYS, and measure(work, wanted, settings), which yields the wanted
# rows, and texts that say why one is missing.
OWN_ROWS = (
    "decoding",
    "preparing",
    "startup",
    "outside",
    "ranks",
    "remote",
    "remote_cold",
    "foreseen",
    "storage",
    "streams",
    "outputs",
    "outputs_tools",
    "outputs_ranks",
    "coordinate",
    "mapping",
    "loading",
    "large",
    "pieces",
    "many",
    "most",
)
# Those whose jobs have several ranks.
OF_RANKS = ("ranks", "remote", "remote_cold", "foreseen", "outputs_ranks", "pieces")
# After this time no further row is begun.
BUDGET_S = 840
FAILURES = (OSError, subprocess.SubprocessError, ReaderEnded, Different, SystemExit)
Measured = Iterable[Result | str]


@dataclass(frozen=True)
class Plan:
    """The rows and kinds of files that a run measures."""

    cases: list[Case]
    cold: list[str]
    own: dict[str, list[str]]
    kinds: list[Kind]
    peers: list[str]
    settings: Settings

    @property
    def keys(self) -> list[str]:
        """Returns the keys of all rows."""
        own = [key for keys in self.own.values() for key in keys]
        return [*(case.key for case in self.cases), *self.cold, *own]


def machine(work: Path) -> dict[str, str]:
    """Returns facts about the machine on which the figures were measured."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    above = [(len(where), kind) for where, kind in mounts if work.is_relative_to(where)]
    kind = max(above)[1] if above else "unknown"
    processor = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
    return {
        "processor": processor, "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(), "file_system": kind, "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }  # fmt: skip


class Run:
    """A run: what it has measured so far, and until when it begins rows."""

    def __init__(self, work: Path) -> None:
        self.report = Report(machine(work))
        self._until = time.monotonic() + BUDGET_S

    def take(self, key: str, measure: Callable[[], Measured]) -> bool:
        """Measures rows, unless the time is up. Adds a failure to the report, and then returns
        False: the readers may have requests without answers."""
        if time.monotonic() > self._until:
            self.report.skipped.append(f"{key}: the run has taken {BUDGET_S} s already")
            return True
        try:
            for found in measure():
                if isinstance(found, str):
                    self.report.skipped.append(found)
                else:
                    self.report.results.append(found)
        except FAILURES as error:
            self.report.failed.append(f"{key}: {error}")
            return False
        return True


def join_peers(stack: ExitStack, plan: Plan, place: Place, report: Report) -> list[Peer]:
    """Returns the peers that can take part; the others are named in the report."""
    peers = []
    for name in plan.peers:
        say(f"making ready: {name}")
        try:
            peers.append(stack.enter_context(PEERS[name](place)))
        except Absent as reason:
            report.skipped.append(f"{name}: {reason}")
    return peers


def measure_peers(plan: Plan, work: Path, program: Path, run: Run) -> None:
    """Measures the rows in which the peers take part."""
    if not plan.kinds:
        return
    place = Place(work, work / "source", work / "dataset")
    say("making files")
    run.report.skipped += make_files(place.source, plan.kinds)
    prepare(place.source, place.dataset)
    with ExitStack() as stack:
        peers = join_peers(stack, plan, place, run.report)
        kinds = [kind for kind in plan.kinds if (place.source / kind.name).exists()]
        with Warm(program, peers, kinds) as warm:
            for case in plan.cases:
                measure_warm(case, warm, plan.settings, run)
        for kind in cold.cold_kinds(kinds):
            key = f"cold-{kind.name}"
            if key in plan.cold:
                run.take(key, partial(cold.measure, program, peers, kind, plan.settings))


def measure_warm(case: Case, warm: Warm, settings: Settings, run: Run) -> None:
    """Measures one row, or records why it cannot be measured."""
    reason = warm.why_not(case)
    if reason is None:
        if not run.take(case.key, lambda: [warm.measure(case, settings)]):
            warm.close()
    elif case.processes == case.threads == 1:
        run.report.skipped.append(f"{case.key}: {reason}")


def run_suite(plan: Plan, work: Path) -> Report:
    """Measures all rows of the plan."""
    run = Run(work)
    program = compile_reader(work)
    steps_ns = floors.measure(work)
    peers_work = work / "peers"
    peers_work.mkdir()
    measure_peers(plan, peers_work, program, run)
    shutil.rmtree(peers_work)
    for name, wanted in plan.own.items():
        if not wanted:
            continue
        if name in OF_RANKS and find_mpiexec() is None:
            missing = "mpiexec is not there: pip install 'fanstore-fs[mpi]'"
            run.report.skipped += [f"{key}: {missing}" for key in wanted]
            continue
        module = importlib.import_module(name)
        own = work / name
        own.mkdir()
        run.take(name, partial(module.measure, own, wanted, plan.settings))
        shutil.rmtree(own, ignore_errors=True)
    floors.mark(run.report, floors.least(steps_ns, floors.measure(work)))
    say("")
    return run.report
