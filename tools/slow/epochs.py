"""How long the epochs of a torch job take that reads files on a slow file system: alone, after a
copy by `tar` to the local disk, and with FanStore. Each job begins cold, and reads through the same
slow mount. Beside them stand the simulated epochs of NoPFS, and of a job that waits for no file.

    python tools/slow/epochs.py --ranks 1 2 4 --python VENV/bin/python
    python tools/slow/epochs.py --ranks 2 4 --python VENV/bin/python --files 1344 --bytes 114688 \
        --compute 16M --latency 0s --stream 0 --total 20M --stage plan --local-bytes 41943040

Each rank stands for a node. --python: an interpreter with torch. --stage: reads a dataset with this
option of `fanstore run`, and not the directory. A time is that of the slowest rank, in seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from slow import SlowTree, parse_curve, parse_latency, parse_rate

HERE = Path(__file__).resolve().parent
PER_FOLDER = 200
LIMIT_S = 1800
BATCH = 32  # as in epoch_job.py


def make_files(top: Path, count: int, size: int) -> None:
    """Makes `count` files of `size` random bytes, PER_FOLDER in a directory."""
    for number in range(count):
        folder = top / f"c{number // PER_FOLDER:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number % PER_FOLDER:03}").write_bytes(os.urandom(size))


class Trial:
    """A job on files of a slow mount. source: has the files in `files` and, for --stage, their
    dataset in `dataset`."""

    def __init__(self, source: Path, ranks: int, options: argparse.Namespace) -> None:
        self._source, self._ranks, self._options = source, ranks, options

    def command(self, way: str, mount: Path, scratch: Path) -> str:
        """Returns the shell command of a rank, which is $RANK."""
        options, local = self._options, scratch / "local"
        job = f"{options.python} {HERE / 'epoch_job.py'} --ranks {self._ranks}"
        job += f" --epochs {options.epochs} --compute {parse_rate(options.compute)}"
        if way == "plain":
            return f"exec {job} {mount}/files"
        if way == "tar":
            node = f"{local}$RANK"
            return f"mkdir {node}; tar -C {mount} -c files | tar -C {node} -x; {job} {node}/files"
        served = f"{mount}/files"
        if options.stage:
            served = f"{mount}/dataset --mount {scratch}/seen$RANK --stage {options.stage}"
        if options.local_bytes:
            served += f" --local-bytes {options.local_bytes}"
        node = f"--quiet --local-dir {local}$RANK --output-dir {scratch}/out"
        seen = f"{scratch}/seen$RANK" if options.stage else f"{mount}/files"
        serve = f"{sys.executable} -m fanstore run {served} {node} {options.more}"
        return f"mkdir {local}$RANK; exec {serve} -- {job} {seen}"

    def run(self, way: str) -> None:
        """Runs the job in one way, and prints a line."""
        options = self._options
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            scratch = Path(folder)
            tree = SlowTree(
                self._source, scratch / "mount", latency_s=parse_latency(options.latency),
                stream_bytes_per_s=parse_rate(options.stream),
                total_bytes_per_s=parse_curve(options.total), direct=options.direct,
            )  # fmt: skip
            with tree as mount:
                begun_s = time.monotonic()
                times = run(self.command(way, mount, scratch), self._ranks, scratch)
                whole_s = time.monotonic() - begun_s
                counts = tree.counts()
        epochs = [max(rank[n][1] for rank in times) for n in range(options.epochs)]
        first = max(rank[0][0] for rank in times)
        read = f"{counts['read'].calls:,} reads of {counts['read'].bytes / 1e6:,.1f} MB"
        print(line(way, self._ranks, [first, *epochs, whole_s]), read, sep="  ", flush=True)

    def simulate(self) -> None:
        """Prints the epochs that NoPFS and a job that never waits would take."""
        options = self._options
        shared = max(parse_curve(options.total).values())
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            scenario = Path(folder, "scenario.toml")
            Path(folder, "sizes").write_text(f"{options.bytes}\n" * options.files)
            scenario.write_text(SCENARIO.format(
                ranks=self._ranks, compute=parse_rate(options.compute), shared=shared,
                buffer=2 * 2 * BATCH * options.bytes, epochs=options.epochs, batch=BATCH,
                disk=options.local_bytes or options.files * options.bytes,
            ))  # fmt: skip
            words = "-m fanstore study simulate --quiet --json --policy nopfs --policy perfect"
            said = subprocess.run(
                [sys.executable, *words.split(), scenario], stdout=subprocess.PIPE, check=True
            )
        policies = json.loads(said.stdout)[0]["policies"]
        for way in ("nopfs", "perfect"):
            epochs = policies[way]["epochs_s"]
            print(line(way, self._ranks, [0.0, *epochs, sum(epochs)]), " simulated", flush=True)


SCENARIO = """\
about = "epochs"

[system]
nodes = {ranks}
ranks_per_node = 1
compute = "{compute} B/s"
preprocess = "2 GB/s"
network = "1 GB/s"

[system.shared]
readers = [1, 64]
rate = ["{shared} B/s", "{shared} B/s"]
readers_per_rank = 2

[system.staging_buffer]
capacity = "{buffer} B"
threads = 2
write = {{ threads = [1], rate = ["4 GB/s"] }}

[[system.classes]]
name = "disk"
capacity = "{disk} B"
threads = 2
read = {{ threads = [1], rate = ["2 GB/s"] }}
write = {{ threads = [1], rate = ["2 GB/s"] }}

[dataset]
sizes = "list"
list = "sizes"

[job]
epochs = {epochs}
batch = {batch}
order = {{ name = "torch-distributed", seed = 1 }}
"""


def line(way: str, ranks: int, seconds: Sequence[float]) -> str:
    return f"{way:9} {ranks:2} ranks  {seconds[0]:6.2f}  " + " ".join(
        f"{each:7.2f}" for each in seconds[1:]
    )


def run(command: str, ranks: int, scratch: Path) -> list[list[tuple[float, float]]]:
    """Runs a command on each rank; returns the times of its epochs by rank."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    script = f"export RANK=$PMI_RANK; {command}"
    done = subprocess.run(
        [mpiexec, "-n", str(ranks), "sh", "-c", script], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(scratch / "cache")}, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    return [json.loads(line)["epochs"] for line in done.stdout.splitlines()]


def prepare(source: Path) -> None:
    words = [sys.executable, "-m", "fanstore", "prepare", "--quiet", "--partitions", "8"]
    subprocess.run([*words, source / "files", source / "dataset"], check=True)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--bytes", type=int, default=110 << 10)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--latency", default="1ms")
    parser.add_argument("--stream", default="20M")
    parser.add_argument("--total", default="200M")
    parser.add_argument("--direct", action="store_true", help="the kernel keeps no content")
    parser.add_argument("--compute", default="0", help="bytes a second that a rank consumes")
    parser.add_argument("--stage", help="of fanstore run, which then reads a dataset")
    parser.add_argument("--local-bytes", type=int, help="of fanstore run")
    parser.add_argument("--more", default="", help="more options of fanstore run")
    parser.add_argument("--ways", nargs="+", default=["plain", "tar", "fanstore"])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--dir", help="for the files, and the nodes' local directories")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        source = Path(folder)
        make_files(source / "files", options.files, options.bytes)
        if options.stage:
            prepare(source)
        print(f"{options.files:,} files of {options.bytes:,} bytes")
        print("                     1st batch, epochs (s), whole job (s)")
        for ranks in options.ranks:
            trial = Trial(source, ranks, options)
            for way in options.ways:
                trial.run(way)
            if parse_rate(options.compute):
                trial.simulate()


if __name__ == "__main__":
    main()
