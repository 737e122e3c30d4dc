"""The benchmark suite: FanStore beside the directory it came from and other ways to serve it.

One run, one table. Every repetition of a row asks all peers in turn, so that whatever else the
machine does meets all alike; ratios are of medians within that run. docs/performance.md explains
the method.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cold
from data import make_files, smaller
from peers import ALWAYS, FANSTORE, PEERS, QUICK, Absent, Peer, Place
from readers import compile_reader
from results import Report
from rows import KINDS, SIZES, Case, Kind, cases, chosen
from table import lines, missed_lines
from warm import Settings, Warm, say

# Modules with rows of their own: row_keys(), and measure(work, wanted, settings).
OWN_ROWS = ("preparing", "startup", "outside", "ranks", "remote")
QUICK_SETTINGS, SETTINGS = Settings(3, 8_000_000, quick=True), Settings(7, 40_000_000)


@dataclass(frozen=True)
class Plan:
    """What a run measures."""

    cases: list[Case]
    cold: list[str]
    compressed: list[str]
    own: dict[str, list[str]]
    kinds: list[Kind]
    peers: list[str]
    settings: Settings

    @property
    def keys(self) -> list[str]:
        """All rows."""
        own = [key for keys in self.own.values() for key in keys]
        return [*(case.key for case in self.cases), *self.cold, *self.compressed, *own]


def own_rows(name: str) -> Any | None:
    """A module of OWN_ROWS; None where it is not there."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def make_plan(arguments: argparse.Namespace) -> Plan:
    """What the arguments ask for."""
    import decoding

    quick, patterns = arguments.quick, arguments.rows
    wanted = [case for case in cases(quick) if chosen(case.key, patterns)]
    cold_keys = [f"cold-{size}" for size in SIZES if chosen(f"cold-{size}", patterns)]
    compressed = [key for key in decoding.row_keys() if chosen(key, patterns)]
    own: dict[str, list[str]] = {}
    for name in OWN_ROWS:
        module = None if quick and patterns is None else own_rows(name)
        own[name] = [key for key in module.row_keys() if chosen(key, patterns)] if module else []
    needed = {case.row.kind for case in wanted} | {key.removeprefix("cold-") for key in cold_keys}
    kinds = [smaller(kind) if quick else kind for kind in KINDS if kind.name in needed]
    names = arguments.peers or (QUICK if quick else tuple(PEERS))
    peers = [name for name in PEERS if name in names or name in ALWAYS]
    base = QUICK_SETTINGS if quick else SETTINGS
    settings = replace(base, repetitions=arguments.repetitions or base.repetitions)
    return Plan(wanted, cold_keys, compressed, own, kinds, peers, settings)


def machine(work: Path) -> dict[str, str]:
    """What the figures were taken on."""
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", work], capture_output=True, text=True
    ).stdout.strip()
    processor = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
    return {
        "processor": processor, "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release(), "file_system": kind, "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }  # fmt: skip


def join_peers(stack: ExitStack, plan: Plan, place: Place, report: Report) -> list[Peer]:
    """Those that are there; the others are named in the report."""
    peers = []
    for name in plan.peers:
        say(f"making ready: {name}")
        try:
            peers.append(stack.enter_context(PEERS[name](place)))
        except Absent as reason:
            report.skipped.append(f"{name}: {reason}")
    return peers


def measure_peers(plan: Plan, work: Path, program: Path, report: Report) -> None:
    """The rows in which the peers take part."""
    if not plan.kinds:
        return
    place = Place(work, work / "source", work / "dataset")
    say("making files")
    report.skipped += make_files(place.source, plan.kinds)
    subprocess.run(
        [*FANSTORE, "prepare", "--quiet", place.source, place.dataset],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    with ExitStack() as stack:
        peers = join_peers(stack, plan, place, report)
        kinds = [kind for kind in plan.kinds if (place.source / kind.name).exists()]
        measure_warm(plan, program, peers, kinds, report)
        measure_cold(plan, program, peers, kinds, report)


def measure_warm(
    plan: Plan, program: Path, peers: list[Peer], kinds: list[Kind], report: Report
) -> None:
    with Warm(program, peers, kinds) as warm:
        for case in plan.cases:
            reason = warm.why_not(case)
            if reason is None:
                report.results.append(warm.measure(case, plan.settings))
            elif case.processes == case.threads == 1:
                report.skipped.append(f"{case.key}: {reason}")


def measure_cold(
    plan: Plan, program: Path, peers: list[Peer], kinds: list[Kind], report: Report
) -> None:
    for kind in cold.cold_kinds(kinds):
        if f"cold-{kind.name}" in plan.cold:
            result, skipped = cold.measure(program, peers, kind, plan.settings)
            report.results.append(result)
            report.skipped += skipped


def measure_compressed(plan: Plan, work: Path, program: Path, report: Report) -> None:
    """The rows beside the decoders."""
    import decoding

    if plan.compressed:
        results, skipped = decoding.measure(work, program, plan.compressed, plan.settings)
        report.results += results
        report.skipped += skipped


def measure_own(plan: Plan, work: Path, report: Report) -> None:
    """The rows that make their own data, each in a directory that is removed afterwards."""
    for name, wanted in plan.own.items():
        if not wanted:
            continue
        own = work / name
        own.mkdir()
        module = own_rows(name)
        assert module is not None
        results, skipped = module.measure(own, wanted, plan.settings)
        report.results += results
        report.skipped += skipped
        shutil.rmtree(own, ignore_errors=True)


def run_suite(plan: Plan, work: Path) -> Report:
    """All rows of the plan."""
    report = Report(machine(work))
    program = compile_reader(work)
    peers_work, compressed_work = work / "peers", work / "compressed"
    peers_work.mkdir()
    measure_peers(plan, peers_work, program, report)
    shutil.rmtree(peers_work)
    compressed_work.mkdir()
    measure_compressed(plan, compressed_work, program, report)
    shutil.rmtree(compressed_work)
    measure_own(plan, work, report)
    say("")
    return report


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--check", action="store_true", help="fail, naming each goal that was missed")
    add("--quick", action="store_true", help="fewer files, rows and peers; less than a minute")
    add("--rows", nargs="+", metavar="KEY", help="only these rows; patterns as the shell's")
    add("--peers", nargs="+", choices=list(PEERS), help="only these, beside directory and FanStore")
    add("--repetitions", type=int, metavar="N", help="how often each row asks each peer")
    add("--json", type=Path, metavar="FILE", help="write the rows there too")
    add("--plots", type=Path, metavar="DIR", help="draw there (needs matplotlib)")
    add("--dir", type=Path, help="where to work (default: the temporary folder)")
    add("--list", action="store_true", help="print the keys of the rows, and do nothing")
    arguments = parser.parse_args(argv)
    if arguments.repetitions is not None and arguments.repetitions < 1:
        parser.error("--repetitions is at least 1")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    plan = make_plan(arguments)
    if arguments.list:
        print("\n".join(plan.keys))
        return 0
    if not plan.keys:
        print("bench: no row of that name; --list shows them", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="fanstore-bench-", dir=arguments.dir) as work:
        report = run_suite(plan, Path(work))
    print("\n".join(lines(report)))
    if arguments.json is not None:
        report.write(arguments.json)
    if arguments.plots is not None:
        from plots import draw

        draw(report, arguments.plots)
    missed = missed_lines(report)
    if arguments.check and missed:
        print("\n".join(["bench: goals missed:", *missed]), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
