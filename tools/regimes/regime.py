"""One size of dataset: its files and orders, a job that reads it, and a simulation of that job."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from trainer import Job

from fanstore.policy.orders.registry import reads_of_ranks

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "slow"))
from slow import SlowTree  # noqa: E402

FANSTORE = [sys.executable, "-m", "fanstore"]
MIB = 1 << 20

NODES, EPOCHS, BATCH, LOADERS = 4, 4, 16, 2
MEAN_BYTES, DEVIATION_BYTES = 112 << 10, 24 << 10
CACHE_BYTES, DISK_BYTES = 24 * MIB, 40 * MIB
SHARED_BYTES_PER_S, COMPUTE_BYTES_PER_S = 20_000_000, 16_000_000
LIMIT_S = 400
_BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(_BESIDE) if _BESIDE.exists() else shutil.which("mpiexec") or "mpiexec"

# By the number of its regime: the storage that a dataset exceeds, and the dataset's size.
REGIMES = {
    1: ("fits into the cache of a node", 16 * MIB),
    2: ("fits on the disk of a node", 36 * MIB),
    3: ("fits on the disks of all nodes", 144 * MIB),
    4: ("exceeds the disks of all nodes", 320 * MIB),
}


@dataclass(frozen=True)
class Way:
    """How a job runs. simulated: the policy of `fanstore study simulate`. reads: as of Job;
    loaders: so many. options: of `fanstore run`; None: the job reads the shared file system by
    itself."""

    simulated: str
    reads: bool
    loaders: int
    options: tuple[str, ...] | None


def _kept(*options: str) -> tuple[str, ...]:
    room = ("--local-bytes", str(DISK_BYTES), "--cache-bytes", str(CACHE_BYTES))
    return ("--stage", "plan", *room, *options)


WAYS = {
    "perfect": Way("perfect", False, 0, None),
    "naive": Way("naive", True, 0, None),
    "close": Way("close", True, LOADERS, (
        "--stage", "full", "--local-bytes", str(DISK_BYTES), "--cache-bytes", str(CACHE_BYTES),
        "--cache-policy", "close", "--order", "off",
    )),
    "lru": Way("lru", True, LOADERS, _kept("--cache-policy", "lru", "--order", "off")),
    "minio": Way("minio", True, LOADERS, _kept("--cache-policy", "minio", "--order", "off")),
    "fanstore": Way("belady", True, LOADERS, _kept("--order", "ORDER")),
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """The seconds of each epoch, or the reason why there are none."""

    epochs_s: list[float]
    reason: str = ""

    @property
    def later_s(self) -> float | None:
        """The median of all epochs except the first."""
        return statistics.median(self.epochs_s[1:]) if self.epochs_s else None


class Regime:
    """A dataset of one regime with the orders of its ranks, in a directory of its own."""

    def __init__(self, work: Path, number: int) -> None:
        self.number = number
        self.work = work / f"regime-{number}"
        self.shared, self.slow = self.work / "shared", self.work / "slow"
        self.shared.mkdir(parents=True)
        sizes = self.drawn_sizes(1 << 14)
        count = int(np.searchsorted(np.cumsum(sizes), REGIMES[number][1]))
        self.sizes = {f"{n:06}": int(size) for n, size in enumerate(sizes[:count])}
        self._make_files()
        self._make_orders()

    def drawn_sizes(self, count: int) -> NDArray[np.integer]:
        """Returns the bytes of so many files."""
        drawn = np.random.default_rng(self.number).normal(MEAN_BYTES, DEVIATION_BYTES, count)
        sizes: NDArray[np.integer] = drawn.clip(8 << 10, 256 << 10).astype(int)
        return sizes

    def _make_files(self) -> None:
        source = self.shared / "source"
        source.mkdir()
        content = os.urandom(1 << 18)
        for name, size in self.sizes.items():
            (source / name).write_bytes(content[:size])
        command = [*FANSTORE, "prepare", "--quiet", source, self.shared / "dataset"]
        subprocess.run([*map(str, command), "--partitions", str(2 * NODES)], check=True)

    def _make_orders(self) -> None:
        names = list(self.sizes)
        coming = reads_of_ranks("torch-distributed", len(names), NODES, seed=0)
        epochs = [next(coming) for _ in range(EPOCHS)]
        for rank in range(NODES):
            parts = ["\n".join(names[i] for i in epoch[rank]) for epoch in epochs]
            (self.work / f"order-{rank}").write_text("\n\n".join(parts) + "\n")

    def measure(self, way: Way) -> Measured:
        """Runs the job in one way."""
        place = self.work / "run"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        steps = place / "steps"
        steps.write_bytes(bytes(8 * NODES))
        job = Job(NODES, COMPUTE_BYTES_PER_S, BATCH, way.loaders, way.reads, str(steps))
        (place / "job").write_text(json.dumps({**asdict(job), "sizes": self.sizes}))
        order = str(self.work / "order-{rank}")
        command = [sys.executable, HERE / "trainer.py", place / "job", order, place / "epochs"]
        env = {**os.environ, "FANSTORE_MOUNT_PREFIX": str(self.slow / "source")}
        env["FANSTORE_NEIGHBOURS"] = "off"  # the ranks stand for nodes
        if way.options is not None:
            options = [order if each == "ORDER" else each for each in way.options]
            where = [
                "--dataset", self.slow / "dataset", "--mount", place / "mount-{rank}",
                "--local-dir", place / "node-{rank}", "--output-dir", place / "output", "--quiet",
            ]  # fmt: skip
            for rank in range(NODES):
                (place / f"node-{rank}").mkdir()
            command = [*FANSTORE, "run", *where, *options, "--", *command]
        slow = SlowTree(self.shared, self.slow, total_bytes_per_s=SHARED_BYTES_PER_S, direct=True)
        with slow:
            done = subprocess.run(
                [MPIEXEC, "-n", str(NODES), *map(str, command)], env=env, timeout=LIMIT_S,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        if done.returncode != 0:
            return Measured([], done.stderr.strip().split("\n")[0])
        ranks = [(place / f"epochs-{rank}").read_text().split() for rank in range(NODES)]
        return Measured([max(map(float, epoch)) for epoch in zip(*ranks, strict=True)])

    def scenario(self) -> Path:
        """Writes the scenario of this machine, dataset and job. Returns its path."""
        (self.work / "sizes").write_text("".join(f"{size}\n" for size in self.sizes.values()))
        path = self.work / "scenario.toml"
        path.write_text(SCENARIO.format(
            number=self.number, nodes=NODES, compute=COMPUTE_BYTES_PER_S,
            shared=SHARED_BYTES_PER_S, buffer=LOADERS * 2 * BATCH * MEAN_BYTES, loaders=LOADERS,
            ram=CACHE_BYTES, disk=DISK_BYTES, epochs=EPOCHS, batch=BATCH,
        ))  # fmt: skip
        return path

    def simulate(self, ways: list[str]) -> dict[str, Measured]:
        """Simulates the job in several ways, and returns the times."""
        chosen = [part for way in ways for part in ("--policy", WAYS[way].simulated)]
        command = [
            *FANSTORE,
            "study",
            "simulate",
            "--quiet",
            "--json",
            str(self.scenario()),
            *chosen,
        ]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return {way: _simulated(json.loads(done.stdout), WAYS[way].simulated) for way in ways}


SCENARIO = """\
about = "regime {number}"

[system]
nodes = {nodes}
ranks_per_node = 1
compute = "{compute} B/s"
preprocess = "2 GB/s"
network = "1 GB/s"

[system.shared]
readers = [1, 64]
rate = ["{shared} B/s", "{shared} B/s"]
readers_per_rank = {loaders}

[system.staging_buffer]
capacity = "{buffer} B"
threads = {loaders}
write = {{ threads = [1], rate = ["4 GB/s"] }}

[[system.classes]]
name = "ram"
capacity = "{ram} B"
threads = {loaders}
read = {{ threads = [1], rate = ["4 GB/s"] }}
write = {{ threads = [1], rate = ["4 GB/s"] }}

[[system.classes]]
name = "disk"
capacity = "{disk} B"
threads = {loaders}
read = {{ threads = [1], rate = ["2 GB/s"] }}
write = {{ threads = [1], rate = ["2 GB/s"] }}

[dataset]
sizes = "list"
list = "sizes"

[job]
epochs = {epochs}
batch = {batch}
order = {{ name = "torch-distributed", seed = 0 }}
"""


def _simulated(said: list[dict[str, Any]], policy: str) -> Measured:
    found = said[0]["policies"][policy]
    if "epochs_s" not in found:
        return Measured([], str(next(iter(found.values()), "")))
    first = found["epochs_s"][0] + found["startup_s"]
    return Measured([first, *found["epochs_s"][1:]])
