"""How long the epochs of a torch job take that reads files on a slow file system, in several ways
(WAYS). Each job begins cold, and reads through the same slow mount. With --compute, beside them
stand the simulated epochs of NoPFS, and of a job that waits for no file.

    python tools/slow/epochs.py --ranks 1 2 4 --python VENV/bin/python
    python tools/slow/epochs.py --ranks 2 4 --python VENV/bin/python --files 1344 --bytes 114688 \
        --compute 16M --latency 0s --stream 0 --total 20M --stage plan --local-bytes 41943040
    python tools/slow/epochs.py --ranks 1 --python VENV/bin/python \
        --json docs/performance/epochs.json --ways plain untar squashfuse webdataset fanstore packed

Each rank stands for a node. --python: an interpreter with torch. --stage: reads a dataset with this
option of `fanstore run`, and not the directory. A time is that of the slowest rank, in seconds.
--json: a file for the results, from which epochs_figure.py draws. The way webdataset needs that
library, and squashfuse needs mksquashfs and squashfuse_ll.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slow import SlowTree, parse_curve, parse_latency, parse_rate

HERE = Path(__file__).resolve().parent
PER_FOLDER = 200
LIMIT_S = 1800
BATCH = 32  # as in epoch_job.py
SHARDS = 8
SPEEDS = ("latency", "stream", "total")  # options that say how slow the mount is
WAYS = {
    "plain": "the job reads the files from the slow mount",
    "tar": "tar copies the files to the local disk first",
    "untar": "one tar file with all files is unpacked to the local disk first",
    "squashfuse": "squashfuse serves a squashfs image that lies on the slow mount",
    "webdataset": "the job is written for webdataset, and reads tar shards from the slow mount",
    "fanstore": "FanStore serves the directory as it is",
    "packed": "FanStore serves a dataset",
}


def make_files(top: Path, count: int, size: int) -> None:
    """Makes `count` files of `size` random bytes, PER_FOLDER in a directory."""
    for number in range(count):
        folder = top / f"c{number // PER_FOLDER:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number % PER_FOLDER:03}").write_bytes(os.urandom(size))


class Trial:
    """A job on files of a slow mount. source: has the files in `files`, and what `prepare` made
    of them."""

    def __init__(self, source: Path, ranks: int, options: argparse.Namespace) -> None:
        self._source, self._ranks, self._options = source, ranks, options

    def command(self, way: str, mount: Path, scratch: Path) -> str:
        """Returns the shell command of a rank, which is $RANK."""
        options, local = self._options, scratch / "local"
        job = f"{options.python} {HERE / 'epoch_job.py'} --ranks {self._ranks}"
        job += f" --epochs {options.epochs} --compute {parse_rate(options.compute)}"
        if way == "plain":
            return f"exec {job} {mount}/files"
        node, image = f"{local}$RANK", f"{scratch}/image$RANK"
        if way == "tar":
            return f"mkdir {node}; tar -C {mount} -c files | tar -C {node} -x; {job} {node}/files"
        if way == "untar":
            return f"mkdir {node}; tar -C {node} -xf {mount}/files.tar; {job} {node}/files"
        if way == "squashfuse":
            serve = f"mkdir {image}; squashfuse_ll {mount}/files.squashfs {image}"
            return f"{serve} && {job} {image}; code=$?; umount {image}; exit $code"
        if way == "webdataset":
            job = f"{options.python} {HERE / 'shard_job.py'} --ranks {self._ranks}"
            return f"exec {job} --epochs {options.epochs} {mount}/shards"
        served, is_packed = f"{mount}/files", way == "packed" or options.stage
        if is_packed:
            served = f"{mount}/dataset --mount {scratch}/seen$RANK"
        if options.stage:
            served += f" --stage {options.stage}"
        for room in ("local", "cache"):
            if size := getattr(options, f"{room}_bytes"):
                served += f" --{room}-bytes {size}"
        places = f"--quiet --local-dir {node} --output-dir {scratch}/out"
        seen = f"{scratch}/seen$RANK" if is_packed else f"{mount}/files"
        serve = f"{sys.executable} -m fanstore run {served} {places} {options.more}"
        return f"mkdir {node}; exec {serve} -- {job} {seen}"

    def run(self, way: str) -> dict[str, Any]:
        """Runs the job in one way, and prints a line. Returns the times."""
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
                told = run(self.command(way, mount, scratch), self._ranks, scratch)
                whole_s = time.monotonic() - begun_s
                counts = tree.counts()
        times = [rank["epochs"] for rank in told]
        epochs = [max(rank[n][1] for rank in times) for n in range(options.epochs)]
        fed = [max(rank[n][1] - rank[n][0] for rank in times) for n in range(options.epochs)]
        first = max(rank[0][0] for rank in times)
        read = f"{counts['read'].calls:,} reads of {counts['read'].bytes / 1e6:,.1f} MB"
        print(line(way, self._ranks, [first, *epochs, whole_s]), read, sep="  ", flush=True)
        return {
            "way": way, "ranks": self._ranks, "first_batch_s": first, "epochs_s": epochs,
            "fed_s": fed, "whole_s": whole_s, "read_bytes": counts["read"].bytes,
        }  # fmt: skip

    def simulate(self, policies: Sequence[str]) -> dict[str, list[float]]:
        """Returns the seconds of the simulated epochs under each policy; none if it cannot run."""
        options = self._options
        shared = max(parse_curve(options.total).values())
        rooms = {"disk": (options.local_bytes or options.files * options.bytes, "2 GB/s")}
        if options.cache_bytes:
            rooms = {"ram": (options.cache_bytes, "4 GB/s"), **rooms}
        classes = [CLASS.format(name=n, room=room, rate=rate) for n, (room, rate) in rooms.items()]
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            scenario = Path(folder, "scenario.toml")
            Path(folder, "sizes").write_text(f"{options.bytes}\n" * options.files)
            scenario.write_text(SCENARIO.format(
                ranks=self._ranks, compute=parse_rate(options.compute), shared=shared,
                buffer=2 * 2 * BATCH * options.bytes, epochs=options.epochs, batch=BATCH,
                classes="".join(classes),
            ))  # fmt: skip
            words = ["-m", "fanstore", "study", "simulate", "--quiet", "--json", scenario]
            words += [word for policy in policies for word in ("--policy", policy)]
            said = subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, check=True)
        found = json.loads(said.stdout)[0]["policies"]
        return {policy: found[policy].get("epochs_s", []) for policy in policies}


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

{classes}
[dataset]
sizes = "list"
list = "sizes"

[job]
epochs = {epochs}
batch = {batch}
order = {{ name = "torch-distributed", seed = 1 }}
"""
CLASS = """\
[[system.classes]]
name = "{name}"
capacity = "{room} B"
threads = 2
read = {{ threads = [1], rate = ["{rate}"] }}
write = {{ threads = [1], rate = ["{rate}"] }}
"""


def line(way: str, ranks: int, seconds: Sequence[float]) -> str:
    return f"{way:9} {ranks:2} ranks  {seconds[0]:6.2f}  " + " ".join(
        f"{each:7.2f}" for each in seconds[1:]
    )


def run(command: str, ranks: int, scratch: Path) -> list[dict[str, Any]]:
    """Runs a command on each rank; returns what each has printed."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    script = f"export RANK=$PMI_RANK; {command}"
    done = subprocess.run(
        [mpiexec, "-n", str(ranks), "sh", "-c", script], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(scratch / "cache"), "FANSTORE_NEIGHBOURS": "off"},
        timeout=LIMIT_S, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


def prepare(source: Path, ways: Sequence[str]) -> None:
    """Makes of the files what the ways read: a dataset, an image, one tar file, tar shards."""
    files = source / "files"
    if "packed" in ways:
        words = [sys.executable, "-m", "fanstore", "prepare", "--quiet", "--partitions", "8"]
        subprocess.run([*words, files, source / "dataset"], check=True)
    if "squashfuse" in ways:
        words = ["mksquashfs", files, source / "files.squashfs", "-comp", "lz4", "-quiet"]
        subprocess.run([*words, "-no-progress"], check=True)
    if "untar" in ways:
        subprocess.run(["tar", "-C", source, "-cf", source / "files.tar", "files"], check=True)
    if "webdataset" in ways:
        write_shards(sorted(path for path in files.rglob("*") if path.is_file()), source / "shards")


def write_shards(files: Sequence[Path], folder: Path) -> None:
    """Writes the files to SHARDS tar files, as samples with one field, `bin`."""
    folder.mkdir()
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:03}.tar", "w") as tar:
            for number in range(shard, len(files), SHARDS):
                tar.add(files[number], f"{number:08}.bin")


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the options of a command line."""
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
    parser.add_argument("--cache-bytes", type=int, help="of fanstore run")
    parser.add_argument("--more", default="", help="more options of fanstore run")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["plain", "tar", "fanstore"])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--dir", help="for the files, and the nodes' local directories")
    parser.add_argument("--json", type=Path, help="write the results there, too")
    return parser.parse_args(argv)


def main() -> None:
    options = parse_arguments()
    report: dict[str, Any] = {key: getattr(options, key) for key in ("files", "bytes", *SPEEDS)}
    report |= {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1), "rows": []}
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        source = Path(folder)
        make_files(source / "files", options.files, options.bytes)
        prepare(source, [*options.ways, *(["packed"] if options.stage else [])])
        print(f"{options.files:,} files of {options.bytes:,} bytes")
        print("                     1st batch, epochs (s), whole job (s)")
        for ranks in options.ranks:
            trial = Trial(source, ranks, options)
            for way in options.ways:
                report["rows"].append(trial.run(way))
            if parse_rate(options.compute):
                for way, epochs in trial.simulate(["nopfs", "perfect"]).items():
                    print(line(way, ranks, [0.0, *epochs, sum(epochs)]), " simulated", flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
