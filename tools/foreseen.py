"""Runs small training jobs of common frameworks, unmodified, and prints for which share of their
opens FanStore knew the order, in all and in each epoch.

    tools/foreseen.py [--files 20000] [--epochs 3] [--ranks 1] [NAME ...]

The jobs are in tools/foreseen/. They use the modules of this interpreter's environment; a job whose
modules are missing is left out with a message."""

from __future__ import annotations

import argparse
import importlib.util
import io
import itertools
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

JOBS = Path(__file__).with_name("foreseen")
FANSTORE = [sys.executable, "-m", "fanstore"]
GOAL = 100.0  # in percent

MPIEXEC = os.environ.get("MPIEXEC", "mpiexec")
# Runs its arguments as a rank, with the variables of torchrun.
_AS_RANK = (
    'export RANK=$PMI_RANK LOCAL_RANK=$PMI_RANK MASTER_ADDR=127.0.0.1 MASTER_PORT=29511;exec "$@"'
)
_LIMIT_S = 1200
_HEADER = re.compile(r"^# (does|needs|jobs): *(.*)$", re.MULTILINE)
_KNOWN = re.compile(r"order of reading known for (\S+) % of opens \((.*)\)")
_EPOCH = re.compile(r"^epoch over: (\d+) (\d+)$", re.MULTILINE)
_OPENED = re.compile(r"([\d,]+) files opened")
_CLASSES = 10
_SHARDS, _IN_SHARD = 400, 20


@dataclass(frozen=True)
class Job:
    """One job, from the comments at its top. jobs: how often it runs; the last run counts."""

    name: str
    does: str
    needs: tuple[str, ...]
    jobs: int = 1

    @property
    def missing(self) -> list[str]:
        """Returns the modules that are missing."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


def jobs(names: Sequence[str]) -> list[Job]:
    """Returns the jobs with these names; all jobs if there are no names."""
    found = []
    for path in sorted(JOBS.glob("*_*.py")):
        header = dict(_HEADER.findall(path.read_text()))
        modules = {"pillow": "PIL"}
        needs = tuple(modules.get(each, each) for each in header.get("needs", "").split())
        if not names or path.stem in names:
            times = int(header.get("jobs", 1))
            found.append(Job(path.stem, header["does"], needs or ("torch",), times))
    return found


def make_dataset(place: Path, count: int) -> Path:
    """Packs `count` files in ten classes: different PNG images of one pixel. Packs some of them
    again in tar files."""
    source = place / "source"
    for number in range(_CLASSES):
        (source / f"class-{number}").mkdir(parents=True)
    for number in range(count):
        (source / f"class-{number % _CLASSES}" / f"{number:06}.png").write_bytes(_png(number))
    (source / "shards").mkdir()
    for number in range(_SHARDS):
        with tarfile.open(source / "shards" / f"{number:03}.tar", "w") as shard:
            for image in range(number * _IN_SHARD, (number + 1) * _IN_SHARD):
                content = _png(image)
                member = tarfile.TarInfo(f"{image:06}.png")
                member.size = len(content)
                shard.addfile(member, io.BytesIO(content))
    subprocess.run([sys.executable, str(JOBS / "shards.py"), str(source)], check=True)
    command = [*FANSTORE, "prepare", "--quiet", str(source), str(place / "dataset")]
    subprocess.run(command, check=True)
    return place / "dataset"


def _png(number: int) -> bytes:
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        checked = kind + content
        return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))

    colour = bytes([0, number % 256, number // 256 % 256, number // 65536 % 256])
    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(colour)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def run(job: Job, place: Path, dataset: Path, epochs: int, ranks: int) -> str:
    """Runs a job. Returns its row of the table; of several ranks, the epochs of the first."""
    where = ["--dataset", str(dataset), "--local-dir", str(place / "local")]
    mount = ["--mount", str(place / "mount"), "--output-dir", str(place / "output")]
    command = [*FANSTORE, "run", *where, *mount, "--", sys.executable, str(JOBS / f"{job.name}.py")]
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "2"}
    if ranks > 1:
        command = [MPIEXEC, "-n", str(ranks), "sh", "-c", _AS_RANK, "sh", *command]
        env |= {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    done = subprocess.run(
        [*command, str(epochs)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=_LIMIT_S, env=env,
    )  # fmt: skip
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        raise SystemExit(f"{job.name}: exit code {done.returncode}")
    known = _KNOWN.search(done.stdout)
    opened = _OPENED.search(done.stdout)
    share, how = (float(known[1]), known[2]) if known else (0.0, "nothing")
    met = "met" if share >= GOAL else "missed"
    files = opened[1] if opened else "?"
    by_epoch = ", ".join(_shares([(0, 0), *_EPOCH.findall(done.stdout)]))
    return f"| `{job.name}` | {job.does} | {files} | {share:.1f} %, {met} | {by_epoch} | {how} |"


def _shares(counts: Sequence[tuple[object, object]]) -> Iterator[str]:
    """Yields the share of known opens between successive counts of opens and of known opens, in
    percent; "-" if no files were opened."""
    totals = [(int(str(opened)), int(str(known))) for opened, known in counts]
    for before, after in itertools.pairwise(totals):
        opened, known = after[0] - before[0], after[1] - before[1]
        yield f"{100 * known / opened:.1f}" if opened else "-"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=1)
    asked = parser.parse_args()
    chosen = jobs(asked.names)
    with tempfile.TemporaryDirectory(prefix="foreseen-") as folder:
        place = Path(folder)
        dataset = make_dataset(place, asked.files)
        print("| job | what it does | opens | order known, goal 100 % | in each epoch | how |")
        print("| --- | --- | --- | --- | --- | --- |", flush=True)
        for job in chosen:
            if job.missing:
                print(f"{job.name}: left out without {', '.join(job.missing)}", file=sys.stderr)
                continue
            rows = [run(job, place, dataset, asked.epochs, asked.ranks) for _ in range(job.jobs)]
            print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
