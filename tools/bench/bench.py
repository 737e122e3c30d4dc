"""The benchmark suite: compares FanStore with the source directory and with other ways to serve it.

One run makes one table. Every repetition of a row asks all peers in turn, so that disturbances of
the machine affect all of them alike; ratios are of medians within the run. docs/performance.md
explains the method."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from data import smaller
from peers import ALWAYS, PEERS, QUICK
from results import Report
from rows import KINDS, SIZES, cases, chosen
from suite import OWN_ROWS, Plan, run_suite
from table import lines, missed_lines
from warm import Settings

QUICK_SETTINGS, SETTINGS = Settings(3, 8_000_000, quick=True), Settings(7, 40_000_000)
# Modules with rows of their own that --quick runs.
QUICK_ROWS = ("decoding",)


def make_plan(arguments: argparse.Namespace) -> Plan:
    """Returns the plan that the arguments describe."""
    quick, patterns = arguments.quick, arguments.rows
    wanted = [case for case in cases(quick) if chosen(case.key, patterns)]
    cold_keys = [f"cold-{size}" for size in SIZES if chosen(f"cold-{size}", patterns)]
    own: dict[str, list[str]] = {}
    for name in OWN_ROWS:
        left_out = quick and patterns is None and name not in QUICK_ROWS
        keys = () if left_out else importlib.import_module(name).KEYS
        own[name] = [key for key in keys if chosen(key, patterns)]
    needed = {case.row.kind for case in wanted} | {key.removeprefix("cold-") for key in cold_keys}
    kinds = [smaller(kind) if quick else kind for kind in KINDS if kind.name in needed]
    names = arguments.peers or (QUICK if quick else tuple(PEERS))
    peers = [name for name in PEERS if name in names or name in ALWAYS]
    base = QUICK_SETTINGS if quick else SETTINGS
    settings = replace(
        base, repetitions=arguments.repetitions or base.repetitions, keep=arguments.keep
    )
    return Plan(wanted, cold_keys, own, kinds, peers, settings)


def write_docs(report: Report, out: Path) -> None:
    """Writes results.json and, where matplotlib is installed, the plots."""
    report.write(out / "results.json")
    if importlib.util.find_spec("matplotlib") is None:
        print("bench: no plots: matplotlib is not installed", file=sys.stderr)
        return
    from plots import draw

    draw(report, out)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--check", action="store_true", help="fail, naming each goal that was missed")
    add("--quick", action="store_true", help="fewer files, rows and peers; less than a minute")
    add("--rows", nargs="+", metavar="KEY", help="only these rows; patterns as the shell's")
    add("--peers", nargs="+", choices=list(PEERS), help="only these, beside directory and FanStore")
    add("--repetitions", type=int, metavar="N", help="how often each row asks each peer")
    add("--json", type=Path, metavar="FILE", help="write the rows there too")
    add("--docs", type=Path, metavar="DIR", help="write rows and plots there")
    add("--dir", type=Path, help="where to work (default: the temporary folder)")
    add("--keep", type=Path, metavar="DIR", help="leave the million files of many-* there")
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
    if arguments.docs is not None:
        write_docs(report, arguments.docs)
    if report.failed:
        print("\n".join(["bench: failed:", *report.failed]), file=sys.stderr)
    missed = missed_lines(report)
    if arguments.check and missed:
        print("\n".join(["bench: goals missed:", *missed]), file=sys.stderr)
        return 1
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
