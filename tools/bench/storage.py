"""The rows of datasets of which the local disk holds only a part: the cost of a resident file, an
epoch that reads the rest from a shared file system of 200 MB/s (tools/slow), and the start of such
a job."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from data import make_files
from peers import FANSTORE, prepare
from readers import HERE, Reader, compile_reader
from results import OURS, Goal, Result
from rows import KIB, MIB, TITLES, Kind
from startup import start_times
from warm import Settings, in_turns, say

sys.path.insert(0, str(HERE.parent / "slow"))
from slow import SlowTree

WARM = (Kind("4k", 4 * KIB, 8, 512), Kind("128k", 128 * KIB, 8, 64))
STAGED, RATE, BUDGET = "staged whole", "what it read at 200 MB/s", "budget"
ROUNDS, WINDOW_NS = 15, 40_000_000
RATE_BYTES, FILE_BYTES, COUNT = 200_000_000, 256 * KIB, 1200
LOCAL_BYTES, CACHE_BYTES = 100 * MIB, 48 * MIB
START_KEY = "storage-start-1300000"
POLICIES = ("close", "lru", "random", "minio")

# Four processes read every file once, each in an order of its own; prints how long that took.
EPOCH = """
import os, random, sys, time
root, seed = sys.argv[1], sys.argv[2]
names = sorted(os.listdir(root))
random.Random(seed).shuffle(names)
begun = time.perf_counter()
for part in range(4):
    if os.fork() == 0:
        for name in names[part::4]:
            with open(os.path.join(root, name), "rb", buffering=0) as stream:
                stream.read()
        os._exit(0)
for part in range(4):
    assert os.wait()[1] == 0
print(time.perf_counter() - begun)
"""


def warm_key(kind: Kind) -> str:
    return f"storage-warm-{kind.name}"


def epoch_key(policy: str) -> str:
    return f"storage-epoch-{policy}"


KEYS = [*map(warm_key, WARM), *map(epoch_key, POLICIES), START_KEY]


class Job:
    """A job on this node, and calls to it."""

    def __init__(self, place: Path) -> None:
        self.mount = place / "mount"
        self._local = f"FANSTORE_LOCAL_DIR={place / 'local'}"
        (place / "local").mkdir(parents=True)

    def call(self, *words: str | Path) -> str:
        """Runs fanstore. Returns its output."""
        done = subprocess.run(
            ["env", self._local, *map(str, [*FANSTORE, *words])],
            check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        return done.stdout

    def reader(self, program: Path) -> Reader:
        """Returns a reader in the job, after it has read every file once."""
        made = Reader(["env", self._local, *FANSTORE, "exec", "--", program, self.mount, "1"])
        for kind in WARM:
            made.ask("sum", kind.name)
        return made

    def node(self) -> dict[str, Any]:
        """Returns the figures of the node's core."""
        return dict(json.loads(self.call("status", "--json"))["node"])

    def wait_until_filled(self) -> dict[str, Any]:
        """Waits until everything is fetched ahead, for at most five minutes."""
        for _ in range(3000):
            node = self.node()
            if not node.get("filling_ahead"):
                return node
            time.sleep(0.1)
        raise SystemExit("the local disk is not filled")


@contextlib.contextmanager
def serving(place: Path, dataset: Path, *options: str) -> Iterator[Job]:
    """Starts a job on a dataset, yields it, and stops it at the end."""
    job = Job(place)
    where = ("--dataset", dataset, "--mount", job.mount, "--output-dir", place / "output")
    job.call("start", *where, *options)
    try:
        yield job
    finally:
        job.call("stop")


def measure_warm(work: Path, keys: Sequence[str]) -> Iterator[Result]:
    """Measures open, read and close of files that are resident in partial packs, and of staged
    files."""
    make_files(work / "source", WARM)
    prepare(work / "source", work / "dataset")
    program = compile_reader(work)
    with (
        serving(work / "whole", work / "dataset", "--stage", "full") as whole,
        serving(work / "part", work / "dataset", "--stage", "plan") as part,
    ):
        part.wait_until_filled()
        readers = {STAGED: whole.reader(program), OURS: part.reader(program)}
        for kind in WARM:
            if warm_key(kind) in keys:
                yield measure_warm_row(readers, kind)
        for reader in readers.values():
            reader.close()


def measure_warm_row(readers: Mapping[str, Reader], kind: Kind) -> Result:
    """Measures one row: the readers read files of that size in turn."""
    title = f"{TITLES[kind.name]}, resident"
    say(title)
    sides = {
        name: partial(reader.ns_per_unit, "read", kind.name, WINDOW_NS)
        for name, reader in readers.items()
    }
    return Result.of(
        "storage", warm_key(kind), title, "file", in_turns(sides, ROUNDS),
        [Goal(STAGED, 0.97)], bytes_per_unit=kind.file_bytes,
    )  # fmt: skip


def measure_epochs(work: Path, keys: Sequence[str]) -> Iterator[Result]:
    """Measures epochs after the first with a disk and cache that hold a part of the dataset,
    compared with the time for the remaining bytes at the shared file system's rate; for each policy
    of the cache."""
    make_files(work / "source-epoch", [Kind("all", FILE_BYTES, 1, COUNT)])
    prepare(work / "source-epoch" / "all" / "folder-00", work / "dataset-epoch")
    room = ("--local-bytes", str(LOCAL_BYTES), "--cache-bytes", str(CACHE_BYTES))
    slow = SlowTree(
        work / "dataset-epoch", work / "slow-epoch", total_bytes_per_s=RATE_BYTES, direct=True
    )
    with slow as dataset:
        for policy in POLICIES:
            if epoch_key(policy) in keys:
                yield measure_epoch(work, dataset, policy, *room)


def measure_epoch(work: Path, dataset: Path, policy: str, *room: str) -> Result:
    say(f"an epoch of a dataset three times the local disk, {policy}")
    options = ("--stage", "plan", "--cache-policy", policy, *room)
    with serving(work / f"epoch-{policy}", dataset, *options) as job:
        node = job.wait_until_filled()
        took, read = [], []
        for epoch in range(4):
            said = job.call("exec", "--", sys.executable, "-c", EPOCH, job.mount, str(epoch))
            took.append(float(said) * 1e9)
            read.append(-node["shared_bytes"])
            node = job.node()
            read[-1] += node["shared_bytes"]
        kept, cached = node["kept_bytes"], node["resident_bytes"]
    rest = COUNT * FILE_BYTES - kept - cached
    ideal_ns = statistics.median(read[1:]) / RATE_BYTES * 1e9
    return Result.of(
        "storage", epoch_key(policy), f"an epoch with {policy}", "epoch",
        {RATE: [ideal_ns], OURS: took[1:]}, [Goal(RATE, 0.9)],
        f"read {', '.join(f'{each / MIB:.1f}' for each in read)} MiB; {kept / MIB:.1f} MiB are on "
        f"the disk, {cached / MIB:.1f} in the cache, {rest / MIB:.1f} in neither",
    )  # fmt: skip


def measure_start(work: Path) -> Result:
    """Measures `fanstore run --stage lazy -- true` with a staged index, which divides the dataset
    as plan does; the goal is two seconds."""
    say("start with a plan on 1,300,000 files")
    runs = start_times(work, "plan", 6, "--stage", "lazy")[1:]
    return Result.of(
        "storage", START_KEY, "fanstore run --stage lazy -- true", "job",
        {OURS: runs, BUDGET: [2e9]}, [Goal(BUDGET, 1.0)],
    )  # fmt: skip


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the rows whose keys are in `wanted`, and yields the result of each."""
    if any(warm_key(kind) in wanted for kind in WARM):
        yield from measure_warm(work, wanted)
    if any(epoch_key(policy) in wanted for policy in POLICIES):
        yield from measure_epochs(work, wanted)
    if START_KEY in wanted:
        yield measure_start(work)
