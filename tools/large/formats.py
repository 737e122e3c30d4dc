"""Trains on large files of common formats, with unmodified programs (readers.py): on the directory,
and under `fanstore run` with one rank and with several, where each rank has a part of the files on
its own disk, and a block cache for a third of them. Prints how long epochs took, whether all read
the same, and how much of what came from other ranks had come before it was asked for.

    python tools/large/formats.py --python VENV/bin/python
    python tools/large/formats.py --python VENV/bin/python --ranks 2 --quick nanogpt hf-2
    python tools/large/formats.py --python VENV/bin/python --held
    python tools/large/formats.py --python VENV/bin/python --held --slow 20M

A reader's name may end with its number of workers. --python: an interpreter with torch, datasets,
h5py, pyarrow, webdataset and mosaicml-streaming. --work keeps the files for the next call. --held
holds the page cache of each rank to a third of the files; on the directory ranks share pages.
--slow: both read through a slow file system (tools/slow) of this rate, with 1 ms a call; FanStore's
epochs begin when all is staged.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from counts import Counts, added
from page_cache import held

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "slow"))
from slow import SlowTree, parse_rate  # noqa: E402

FANSTORE = [sys.executable, "-m", "fanstore"]
MIB = 1 << 20
LIMIT_S = 900
SLOW_S = 0.001  # of each call to the slow file system
NAMES = (
    "nanogpt", "megatron", "megatron-2", "hf", "h5py", "parquet", "webdataset", "mds",
)  # fmt: skip
# Runs its arguments as a rank, with the variables of torchrun.
AS_RANK = 'export RANK=${PMI_RANK:-0} LOCAL_RANK=${PMI_RANK:-0} MASTER_PORT=29517; exec "$@"'

Epoch = list[dict[str, Any]]  # what each rank told


class Trial:
    """The files of a format, and the same as a dataset."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.name, self.options = name, options
        kind = name.split("-")[0]
        self.source = options.work / f"{kind}-{options.size // MIB}"
        self.dataset = self.source.with_suffix(".fan")
        if not self.dataset.exists():
            self.make(kind)

    def seen(self, path: Path) -> Path:
        """Returns where programs find a path."""
        slow: Path | None = self.options.mount
        return path if slow is None else slow / path.relative_to(self.options.work)

    def make(self, kind: str) -> None:
        for path in (self.source, self.dataset):
            shutil.rmtree(path, ignore_errors=True)
        made = [self.options.python, HERE / "contents.py", kind, self.source, self.options.size]
        subprocess.run(list(map(str, made)), check=True, timeout=LIMIT_S, stdout=sys.stderr)
        packed = ["prepare", "--quiet", "--partitions", "2", self.source, self.dataset]
        subprocess.run([*FANSTORE, *map(str, packed)], check=True, timeout=LIMIT_S)

    def slowed(self) -> AbstractContextManager[object]:
        """Mounts what programs see, cold, if that is to be slow."""
        options = self.options
        if options.mount is None:
            return nullcontext()
        return SlowTree(
            options.work, options.mount, latency_s=SLOW_S, total_bytes_per_s=options.slow
        )

    def run(self, ranks: int, served: bool, holds: bool) -> list[Epoch]:
        """Runs the program on each rank, as in the first job with its dataset; returns its
        epochs."""
        options = self.options
        shutil.rmtree(self.dataset / "learnt", ignore_errors=True)
        with (
            tempfile.TemporaryDirectory(prefix="run-", dir=options.work) as folder,
            held(ranks, options.size // 3) if holds else nullcontext(":") as enter,
        ):
            command = self.served(Path(folder)) if served else self.program(self.seen(self.source))
            as_rank = ["sh", "-c", f"{enter}; {AS_RANK}", "sh", *map(str, command)]
            many = [Path(sys.executable).with_name("mpiexec"), "-n", str(ranks)]
            done = subprocess.run(
                [*many * (ranks > 1), *as_rank], capture_output=True, text=True, timeout=LIMIT_S,
                env={**environment(ranks), "XDG_CACHE_HOME": folder},
            )  # fmt: skip
        if options.verbose or done.returncode != 0:
            print(done.stderr, file=sys.stderr)
        if done.returncode != 0:
            raise SystemExit(f"{self.name}: exit code {done.returncode}")
        lines = done.stdout.replace("}{", "}\n{").splitlines()  # mpiexec may join two
        told = [json.loads(line) for line in lines if line.startswith("{")]
        of_rank = [[each for each in told if each["rank"] == rank] for rank in range(ranks)]
        return [list(epoch) for epoch in zip(*of_rank, strict=True)]

    def program(self, files: Path) -> list[object]:
        options = self.options
        return [
            options.python,
            HERE / "readers.py",
            self.name,
            files,
            options.epochs,
            options.compute,
        ]

    def served(self, folder: Path) -> list[object]:
        where = ["--mount", folder / "seen", "--output-dir", folder / "out", "--replicas", "1"]
        where += ["--local-dir", folder / "node-{rank}"]
        where += ["--cache-bytes", self.options.size // 3, *self.options.more.split()]
        command = [*FANSTORE, "run", "--dataset", self.seen(self.dataset), *where]
        return [*command, "--", *self.program(folder / "seen")]

    def rows(self) -> Iterator[list[str]]:
        holds = self.options.held
        if holds:  # the pages of programs and libraries are then there, and count for nobody
            self.run(1, True, False)
            forget(self.source)
        for ranks in self.options.ranks:
            plain, ours = (self.run(ranks, served, holds) for served in (False, True))
            yield [self.name, str(ranks), *columns(plain, ours)]


def forget(files: Path) -> None:
    """Drops the pages of files, which would count for those who had read them before."""
    os.sync()
    for path in files.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def environment(ranks: int) -> dict[str, str]:
    """Returns the variables of a rank, which stands for a node."""
    own = {"FANSTORE_NEIGHBOURS": "off", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    world = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
    return {**os.environ, **own, **(world if ranks > 1 else {})}


HEADER = [
    "reader", "ranks", "s, directory", "s, FanStore", "same", "asked MiB", "fetched MiB", "there %",
    "foreseen %", "waited parts %", "waited s", "faults",
]  # fmt: skip


def columns(plain: Sequence[Epoch], ours: Sequence[Epoch]) -> list[str]:
    """Returns the cells of a row. In each, a figure for each epoch: the time of the slowest rank,
    else the sum over ranks."""
    grew = [added([rank["counts"] for rank in epoch]) for epoch in ours]
    faults = [sum(rank["faults"] for rank in epoch) for epoch in ours]
    return [
        listed([slowest(epoch) for epoch in plain], 2),
        listed([slowest(epoch) for epoch in ours], 2),
        "yes" if sums_of(plain) == sums_of(ours) else "NO",
        listed([each["asked"] / MIB for each in grew]),
        listed([each["fetched"] / MIB for each in grew]),
        listed([share(each["found"], each["asked"]) for each in grew]),
        listed([share(foreseen(each), each["fetched"]) for each in grew]),
        listed([share(each["missed"], each["parts"]) for each in grew]),
        listed([each["waited_s"] for each in grew], 2),
        listed(faults, 0),
    ]


def foreseen(counts: Counts) -> float:
    """Returns the bytes that came before they were asked for, and were read. Of those that came
    late only blocks are counted: they are taken to be as long as the others."""
    if not counts["blocks"]:
        return 0
    late_bytes = counts["late"] * counts["ahead"] / counts["blocks"]
    return max(0, counts["ahead"] - counts["unread"] - late_bytes)


def share(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole else None


def sums_of(epochs: Sequence[Epoch]) -> list[tuple[int, int]]:
    return [(rank["checksum"], rank["bytes"]) for epoch in epochs for rank in epoch]


def slowest(epoch: Epoch) -> float:
    return max(float(rank["seconds"]) for rank in epoch)


def listed(figures: Sequence[float | None], digits: int = 1) -> str:
    return ", ".join("-" if each is None else f"{each:,.{digits}f}" for each in figures)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="READER", default=NAMES)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--size", type=int, default=256, help="MiB of each format")
    parser.add_argument("--quick", action="store_true", help="64 MiB of each, two ranks only")
    parser.add_argument(
        "--compute", type=float, default=100,
        help="10^6 bytes that training uses in a second; 0: it takes no time",
    )  # fmt: skip
    parser.add_argument("--held", action="store_true", help="hold the page cache; needs root")
    parser.add_argument("--slow", type=parse_rate, default=0, help="bytes in a second, such as 20M")
    parser.add_argument("--more", default="", help="more options of fanstore run")
    parser.add_argument("--work", type=Path, help="a directory for the files")
    parser.add_argument("--verbose", action="store_true", help="print what FanStore says")
    options = parser.parse_args()
    if options.quick:
        options.size, options.ranks = 64, [2]
    options.size, options.compute = options.size * MIB, options.compute * 1e6
    return options


def main() -> None:
    options = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="formats-") as folder:
        options.work = (options.work or Path(folder)).resolve()
        options.work.mkdir(exist_ok=True)
        options.mount = Path(folder, "slow") if options.slow else None
        print("|", " | ".join(HEADER), "|")
        print("|", " | ".join(["---"] * len(HEADER)), "|", flush=True)
        for name in options.names:
            trial = Trial(name, options)
            with trial.slowed():
                for row in trial.rows():
                    print("|", " | ".join(row), "|", flush=True)


if __name__ == "__main__":
    main()
