"""Runs the torch job of epoch_job.py on datasets of four sizes (NoPFS, section 4), which fit into
the memory of a node, on its disk, on the disks of all nodes, or on none; in several ways (WAYS), on
a slow shared file system. Simulates each job, and prints both results side by side.

    python tools/slow/regimes.py --python VENV/bin/python [--regimes 1,4] [--ways minio,fanstore]

Each of the four ranks stands for a node. An epoch's time begins with its first batch: before, torch
starts its workers, which is not simulated.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

from epochs import Trial, make_files, parse_arguments, prepare

MIB = 1 << 20
RANKS, FILE_BYTES = 4, 112 << 10
# By number: the storage into which a dataset fits, and the dataset's size.
REGIMES = {
    1: ("memory", 16 * MIB), 2: ("disk", 36 * MIB), 3: ("all disks", 144 * MIB),
    4: ("none", 320 * MIB),
}  # fmt: skip
# By name: a way of epochs.py, the simulated policy, and the options of `fanstore run`.
WAYS = {
    "alone": ("plain", "staging-buffer", ""),
    "close": ("packed", "close", "--stage full --cache-policy close --order off"),
    "lru": ("packed", "lru", "--stage plan --cache-policy lru --order off"),
    "minio": ("packed", "minio", "--stage plan --cache-policy minio --order off"),
    "fanstore": ("packed", "belady", "--stage plan"),
}
JOB = f"""--bytes {FILE_BYTES} --epochs 4 --compute 16M --latency 0s --stream 0 --total 20M --direct
    --cache-bytes {24 * MIB} --local-bytes {40 * MIB}"""


def later_s(epochs_s: list[float]) -> float | None:
    """Returns the median of all epochs except the first."""
    return statistics.median(epochs_s[1:]) if epochs_s else None


def row(source: Path, number: int, name: str, options: argparse.Namespace) -> str:
    """Runs and simulates a job in one way. Returns a row of the table."""
    about, files_bytes = REGIMES[number]
    way, policy, options.more = WAYS[name]
    trial = Trial(source, RANKS, options)
    simulated = trial.simulate([policy, "perfect"])
    expected_s, perfect_s = later_s(simulated[policy]), later_s(simulated["perfect"])
    try:
        fed_s = trial.run(way)["fed_s"]
    except subprocess.CalledProcessError:  # its message says why
        fed_s = []
    took_s = later_s(fed_s)
    cells = [
        f"{files_bytes // MIB} MiB: {about}", f"`{name}`",
        f"{fed_s[0]:.2f} s" if fed_s else "cannot run",
        f"{took_s:.2f} s" if took_s else "",
        f"{expected_s:.2f} s" if expected_s else "cannot run",
        f"{took_s / expected_s:.2f}" if took_s and expected_s else "",
        f"{took_s / perfect_s:.2f}" if took_s and perfect_s else "",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measures and simulates the regimes and ways that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--regimes", default=",".join(map(str, REGIMES)))
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--python", required=True, help="of an environment with torch")
    parser.add_argument("--dir", help="for the files, and the nodes' local directories")
    asked = parser.parse_args()
    rows = ["| dataset | way | first epoch | later | simulated | measured / simulated "
            "| later / perfect |", "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for number in map(int, asked.regimes.split(",")):
        options = parse_arguments(
            [*JOB.split(), "--files", str(REGIMES[number][1] // FILE_BYTES),
             "--python", asked.python, *(["--dir", asked.dir] if asked.dir else [])]
        )  # fmt: skip
        with tempfile.TemporaryDirectory(dir=asked.dir) as folder:
            make_files(Path(folder) / "files", options.files, options.bytes)
            prepare(Path(folder), ["packed"])
            rows += [row(Path(folder), number, name, options) for name in asked.ways.split(",")]
    print("\n".join(rows))


if __name__ == "__main__":
    main()
