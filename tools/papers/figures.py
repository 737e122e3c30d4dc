"""Redoes figures and tables of the papers with the simulator: printed numbers beside ours.

    .venv/bin/python tools/papers/figures.py [thesis] [nopfs] [lobster] [coordl] [deepio]

Scenarios are simulated with a part of their files and of their storage, which changes no ratio."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from fanstore.study.simulate.engine import outcome_of, simulate
from fanstore.study.simulate.library import changed, load
from fanstore.study.simulate.policies import POLICIES, PolicyPlan
from fanstore.study.simulate.results import PolicyOutcome
from fanstore.study.simulate.scenario import Scenario, scenario_from
from fanstore.study.simulate.workload import Workload

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "support"))
from papers import randomisation_level

Row = tuple[str, str, str]


def scenario(name: str, **changes: str) -> Scenario:
    """A built-in scenario with some values changed."""
    file, table = load(name)
    return scenario_from(file, changed(file, table, changes))


def run(name: str, *policies: str, **changes: str) -> dict[str, PolicyOutcome]:
    """The outcomes of the policies that can run."""
    found = simulate(scenario(name, **changes), policies).policies.items()
    return {policy: each for policy, each in found if isinstance(each, PolicyOutcome)}


def thesis() -> Iterator[Row]:
    """Seconds of a job in two scenarios of a thesis on clairvoyant prefetching."""
    for name, part, printed in (
        ("thesis-1", 1, {"perfect": 7.30, "naive": 27.8, "staging-buffer": 10.2, "nopfs": 7.78}),
        ("thesis-2", 20, {"perfect": 3826, "naive": 15131, "staging-buffer": 4982, "nopfs": 3836}),
    ):
        parts = {"files": str(1_281_167 // part), "ram": f"{120_000 // part} MB"}
        parts["disk"] = f"{900_000 // part} MB"
        found = run(name, *printed, **(parts if part > 1 else {}))
        for policy, seconds in printed.items():
            ours = part * found[policy].total_s
            yield f"{name}, {policy}", f"{seconds:,} s", f"{ours:,.4g} s"


def nopfs() -> Iterator[Row]:
    """Figure 8: how many times as long as perfect; figure 9: hours."""
    listed = ("perfect", "naive", "staging-buffer", "deepio-ordered", "deepio-opportunistic",
              "parallel-staging", "lbann-dynamic", "locality-aware", "nopfs")  # fmt: skip
    for name, files in (("nopfs-1", 50_000), ("nopfs-2", 1_281_167), ("nopfs-3", 14_197_122)):
        part = 1 if name == "nopfs-1" else files // 64_000
        rooms = {"ram": f"{120_000 // part} MB", "disk": f"{900_000 // part} MB"}
        found = run(name, *listed, files=str(files // part), **rooms)
        best = found["perfect"].total_s
        for policy, each in found.items():
            printed = "1.7" if (name, policy) == ("nopfs-1", "naive") else "in a figure"
            yield f"{name}, {policy}", printed, f"{each.total_s / best:.3f}"
    small = {"files": "141971", "staging_buffer": "50 MB"}
    for policy, printed, rooms in (
        ("perfect", "1.06 h", {}),
        ("nopfs", "1.64 h", {"ram": "0 B", "disk": "0 B"}),
        ("nopfs", "in a figure", {"ram": "5120 MB", "disk": "10240 MB"}),
    ):
        each = run("nopfs-env", policy, **small, **rooms)[policy]
        room = ", ".join(rooms.values()) or "no stalls"
        yield f"figure 9, {policy}, {room}", printed, f"{each.total_s / 36:.2f} h"


LOBSTER = {"files": "32000", "ram": "999 MB", "staging_buffer": "12 MB"}  # 40 of 135 GB
FIXED = {"loaders": 3}  # three threads of a rank fetch, as with DALI, and the others prepare
BALANCED = {"loaders": 0, "balanced": True}


def lobster() -> Iterator[Row]:
    """Hit rates of one of eight streams; and the ablation of figure 11."""
    streams = {"files": "12000", "ram": "374657 kB", "nodes": "8", "ranks_per_node": "1"}
    streams["epochs"] = "90"
    found = run("lobster-1", "lru", "random", "reuse", **streams)
    for policy, printed in (("lru", 24.5), ("random", 32.6), ("reuse", 63.2)):
        ours = 100 * found[policy].source_shares["ram"]
        yield f"hits, {policy}", f"{printed} %", f"{ours:.1f} %"
    yield from ablation()


def ablation() -> Iterator[Row]:
    """Figure 11: speeds compared with DALI, which has a page cache and threads with fixed work. The
    paper does not say how fast a thread reads Lustre: 20 MB/s is assumed, and less than what a
    thread prepares, because the paper has loading as the bottleneck."""
    file, table = load("lobster-1")
    table["system"]["shared"]["rate"] = ["20 MB/s", "1280 MB/s", "10240 MB/s", "81920 MB/s"]
    workload = Workload(scenario_from(file, changed(file, table, LOBSTER)))

    def time_s(policy: str, threads: dict[str, Any]) -> float:
        plan: PolicyPlan = replace(POLICIES[policy].plan(workload), **threads)
        return median(outcome_of(workload, plan).epochs_s[1:])

    dali, nopfs_s = time_s("random", FIXED), time_s("nopfs", FIXED)
    for about, policy, threads, printed in (
        ("Lobster_th: threads alone", "random", BALANCED, "1.3; -"),
        ("Lobster_evict: eviction alone", "reuse", FIXED, "1.15; -"),
        ("Lobster: both", "reuse", BALANCED, "1.7; 1.2"),
        ("NoPFS with Lobster's threads", "nopfs", BALANCED, "-; -"),
    ):
        ours = time_s(policy, threads)
        ratios = f"{dali / ours:.2f}; {nopfs_s / ours:.2f}"
        yield f"{about}: times as fast as DALI; as NoPFS", printed, ratios


def coordl() -> Iterator[Row]:
    """Table 5: GB that are read in an epoch once caches are warm."""
    tenth = {"files": "174304", "ram": "42 GB"}
    policies = ("lru", "random", "minio")
    early, late = (run("coordl-ssd", *policies, epochs=n, **tenth) for n in ("4", "8"))
    for policy, printed in zip(policies, ("422", "340", "225"), strict=True):
        read = late[policy].source_bytes["shared"] - early[policy].source_bytes["shared"]
        yield f"table 5, {policy}", f"{printed} GB", f"{10 * read / 4 / 1e9:.0f} GB"


def deepio() -> Iterator[Row]:
    """Randomisation levels; GB/s by the number of nodes."""
    for images, printed in ((4, 73), (16, 49), (256, 16)):
        ours = 100 * randomisation_level(10_960, images)
        yield f"RL, {images} images together", f"{printed} %", f"{ours:.1f} %"
    for nodes in ("2", "4", "8", "16"):
        small = {"files": "64000", "ram": f"{2000 // int(nodes)} MB", "nodes": nodes}
        found = run("deepio", "naive", "deepio-ordered", "deepio-opportunistic", **small)
        rates = ", ".join(f"{each.bytes_per_s / 1e9:.2f}" for each in found.values())
        yield f"GB/s on {nodes} nodes: naive, ordered, opportunistic", "in a figure", rates


FIGURES: dict[str, Callable[[], Iterator[Row]]] = {
    each.__name__: each for each in (thesis, nopfs, lobster, coordl, deepio)
}


def main() -> None:
    """Prints a table for each figure that the command line names; without names, for all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("figures", nargs="*", help=", ".join(FIGURES))
    for name in parser.parse_args().figures or FIGURES:
        print(
            f"\n{name}: {FIGURES[name].__doc__}\n\n| number | printed | here |\n| --- | --- | --- |"
        )
        for row in FIGURES[name]():
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
