"""Runs a training job on datasets of four sizes (NoPFS, section 4): they fit into the cache of a
node, on its disk, on the disks of all nodes, or on none; under several policies, on a shared file
system that is slow (tools/slow). Simulates the same jobs, and prints both results side by side.

    .venv/bin/python tools/regimes/regimes.py WORK \
        [--regimes 1,4] [--policies minio,fanstore] [--json FILE] [--plot FILE.svg]"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from regime import REGIMES, WAYS, Regime
from show import Results, draw, table


def main() -> None:
    """Measures and simulates the regimes and policies that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", type=Path, help="a directory to be made, on a local disk")
    parser.add_argument("--regimes", default=",".join(map(str, REGIMES)))
    parser.add_argument("--policies", default=",".join(WAYS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    asked = parser.parse_args()
    asked.work.mkdir()
    names = asked.policies.split(",")
    results: Results = {}
    for number in map(int, asked.regimes.split(",")):
        regime = Regime(asked.work, number)
        simulated = regime.simulate(names)
        results[number] = {}
        for name in names:
            measured = regime.measure(WAYS[name])
            results[number][name] = {"measured": measured, "simulated": simulated[name]}
            shown = [f"{each:.2f}" for each in measured.epochs_s]
            expected = [f"{each:.2f}" for each in simulated[name].epochs_s]
            print(number, name, *(shown or [measured.reason]), "|", *expected, flush=True)
    print(table(results))
    if asked.json:
        plain = {
            number: {
                way: {which: asdict(m) for which, m in both.items()} for way, both in ways.items()
            }
            for number, ways in results.items()
        }
        asked.json.write_text(json.dumps(plain, indent=1) + "\n")
    if asked.plot:
        draw(results, asked.plot)


if __name__ == "__main__":
    main()
