"""Predicts the times of a job on hundreds to thousands of nodes, in tables (docs/scale.md).

    scale.py [--nodes N,N,...] [--files N] [--bytes N] [--readers N] [--compute SECONDS]
             [--no-paper]

A model, not a measurement: FanStore's parts were measured on one machine (parts.py), the machine is
an assumption, and fetches between nodes are simulated event by event (traffic.py)."""

from __future__ import annotations

import argparse
from dataclasses import replace

from parts import PAPER, Job, Machine, Measured
from traffic import hot
from whole import end_s, epoch_s, memory_bytes, start_of, traffic_of

KIB = 1024


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def print_table(title: str, names: list[str], rows: list[list[object]]) -> None:
    print(f"{title}\n\n{row(*names)}\n{row(*['---'] * len(names))}")
    for cells in rows:
        print(row(*cells))
    print(flush=True)


def print_jobs(counts: list[int], machine: Machine, measured: Measured, job: Job) -> None:
    rows: list[list[object]] = []
    for nodes in counts:
        start = start_of(nodes, machine, measured, job)
        traffic = traffic_of(nodes, machine, measured, job)
        rows.append([
            f"{nodes:,}", f"{start.python_s + start.mpi_s:.2f}", f"{start.told_s:.3f}",
            f"{start.index_s:.1f}", f"{start.staging_s:.1f}", f"{epoch_s(nodes, job, traffic):.2f}",
            f"{end_s(nodes, machine, measured):.2f}",
            f"{memory_bytes(nodes, measured) / 1e6:.1f}",
        ])  # fmt: skip
    names = ["nodes", "Python, MPI s", "told s", "index s", "staging s", "epoch s", "end s",
             "MB for ranks"]  # fmt: skip
    print_table("A job:", names, rows)


def print_fetches(counts: list[int], machine: Machine, measured: Measured, job: Job) -> None:
    rows: list[list[object]] = []
    for nodes in counts:
        cases = {"anywhere": None, "1 % on one node": hot(nodes, 0.01, 1)}
        if nodes > 16:
            cases["1 % on 16 nodes"] = hot(nodes, 0.01, 16)
        for name, holders in cases.items():
            found = traffic_of(nodes, machine, measured, job, holders)
            rows.append([
                f"{nodes:,}", name, f"{found.files_per_s:,.0f}",
                f"{found.median_s * 1e6:.0f}", f"{found.late_s * 1e6:.0f}",
                f"{found.busiest * 100:.0f} %",
            ])  # fmt: skip
    names = ["nodes", "files lie", "files/s a node", "median us", "99.9 % us", "busiest link"]
    print_table("What nodes fetch of each other:", names, rows)


def print_paper(measured: Measured) -> None:
    """Prints the benchmark of the paper's figure 6, four readers on each node without computing,
    and of figure 7 with computing."""
    rows: list[list[object]] = []
    for name, size, compute_s in (
        ("benchmark", 128 * KIB, 0.0), ("benchmark", 512 * KIB, 0.0),
        ("benchmark", 2048 * KIB, 0.0), ("ResNet-50", 108 * KIB, 0.05),
    ):  # fmt: skip
        job = Job(1_300_000, size, 4, compute_s)
        rates = {}
        for kind, machine in (("paper", PAPER), ("whole", replace(PAPER, uplinks=28))):
            for nodes in (64, 512):
                rates[kind, nodes] = traffic_of(nodes, machine, measured, job).files_per_s
        shares = [
            f"{rates[kind, 512] / rates[kind, 64] * 100:.1f} %" for kind in ("paper", "whole")
        ]
        rows.append([name, f"{size // KIB} KiB", *shares])
    print_table("512 nodes beside 64, of the rate of each node:",
                ["job", "file", "leaves of 28 with 20 links up", "with 28"], rows)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="512,4096,16384", metavar="N,N,...")
    parser.add_argument("--files", type=int, default=100_000_000)
    parser.add_argument("--bytes", type=int, default=128 * KIB, help="of each file")
    parser.add_argument("--readers", type=int, default=4, help="of each node")
    parser.add_argument("--compute", type=float, default=0.0, metavar="SECONDS", help="a file")
    parser.add_argument("--no-paper", action="store_true", help="leave the paper's figures out")
    arguments = parser.parse_args()
    try:
        counts = [int(text) for text in arguments.nodes.split(",")]
    except ValueError:
        parser.error(f"--nodes is {arguments.nodes!r}; allowed: numbers, such as 512,4096")
    if min(arguments.files, arguments.bytes, arguments.readers, *counts) < 1:
        parser.error("--nodes, --files, --bytes and --readers are 1 or more")
    if arguments.compute < 0:
        parser.error("--compute is 0 or more")
    measured, machine = Measured(), Machine()
    job = Job(arguments.files, arguments.bytes, arguments.readers, arguments.compute)
    print_jobs(counts, machine, measured, job)
    print_fetches(counts, machine, measured, job)
    if not arguments.no_paper:
        print_paper(measured)


if __name__ == "__main__":
    main()
