"""How long the epochs of a torch job take that reads a directory on a slow file system as it is:
alone, and with FanStore. Each job begins cold, and reads through the same slow mount.

    python tools/slow/epochs.py --ranks 1 2 4 --python VENV/bin/python

--python: an interpreter with torch. A time is that of the slowest rank, in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from slow import SlowTree, parse_curve, parse_latency, parse_rate

HERE = Path(__file__).resolve().parent
PER_FOLDER = 200
LIMIT_S = 1800


def make_files(top: Path, count: int, size: int) -> None:
    """Makes `count` files of `size` random bytes, PER_FOLDER in a directory."""
    for number in range(count):
        folder = top / f"c{number // PER_FOLDER:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number % PER_FOLDER:03}").write_bytes(os.urandom(size))


def commands(mount: Path, scratch: Path, ranks: int, options: argparse.Namespace) -> dict[str, str]:
    """Returns the shell command of a rank, which is $RANK, alone and with FanStore."""
    job = f"{options.python} {HERE / 'epoch_job.py'} {mount} {ranks} {options.epochs}"
    node = f"--local-dir {scratch}/local$RANK --output-dir {scratch}/out"
    serve = f"{sys.executable} -m fanstore run --quiet {mount} {node}"
    return {
        "plain": f"exec {job}",
        "fanstore": f"mkdir {scratch}/local$RANK; exec {serve} -- {job}",
    }


def run(command: str, ranks: int, scratch: Path) -> list[list[tuple[float, float]]]:
    """Runs a command on each rank; returns the times of its epochs by rank."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    script = f"export RANK=$PMI_RANK; {command}"
    done = subprocess.run(
        [mpiexec, "-n", str(ranks), "sh", "-c", script], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(scratch / "cache")}, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    return [json.loads(line)["epochs"] for line in done.stdout.splitlines()]


def measure(source: Path, ranks: int, options: argparse.Namespace) -> None:
    """Prints a line for the job alone and one for the job with FanStore."""
    for name in ("plain", "fanstore"):
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            scratch = Path(folder)
            tree = SlowTree(
                source, scratch / "mount", latency_s=parse_latency(options.latency),
                stream_bytes_per_s=parse_rate(options.stream),
                total_bytes_per_s=parse_curve(options.total),
            )  # fmt: skip
            with tree as mount:
                times = run(commands(mount, scratch, ranks, options)[name], ranks, scratch)
                counts = tree.counts()
        epochs = [max(rank[n][1] for rank in times) for n in range(options.epochs)]
        first = max(rank[0][0] for rank in times)
        seconds = " ".join(f"{each:7.2f}" for each in epochs)
        read = f"{counts['read'].calls:,} reads of {counts['read'].bytes / 1e6:,.1f} MB"
        print(f"{name:9} {ranks:2} ranks  {first:6.2f}  {seconds}  {read}", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--bytes", type=int, default=110 << 10)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--latency", default="1ms")
    parser.add_argument("--stream", default="20M")
    parser.add_argument("--total", default="200M")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--dir", help="for the files, and the nodes' local directories")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        source = Path(folder)
        make_files(source, options.files, options.bytes)
        print(f"{options.files:,} files of {options.bytes:,} bytes; first batch, epochs (s), reads")
        for ranks in options.ranks:
            measure(source, ranks, options)


if __name__ == "__main__":
    main()
