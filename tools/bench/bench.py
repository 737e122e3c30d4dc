"""Compares FanStore with the directory it came from: warm, one run, alternating repetitions.

One reader process works on the directory and another, the same binary, under `fanstore run`; the
driver asks them in turn, so that whatever else the machine does meets both alike. A row's ratio is
the directory's median time over FanStore's: above 1, FanStore is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
FANSTORE = [sys.executable, "-m", "fanstore"]


@dataclass(frozen=True)
class Kind:
    """Files of one size, `files_each` in each of `folders` folders."""

    name: str
    file_bytes: int
    folders: int
    files_each: int


KINDS = (
    Kind("4k", 4 << 10, 16, 512),
    Kind("128k", 128 << 10, 16, 64),
    Kind("2m", 2 << 20, 8, 8),
)

# title, request, kind, unit
ROWS = (
    ("read 4 KiB", "read", "4k", "file"),
    ("read 128 KiB", "read", "128k", "file"),
    ("read 2 MiB", "read", "2m", "file"),
    ("stat", "stat", "4k", "call"),
    ("stat, missing name", "missing", "4k", "call"),
    ("open + close", "open", "4k", "file"),
    ("readdir", "readdir", "4k", "entry"),
)


@dataclass(frozen=True)
class Result:
    """One row: nanoseconds per unit, medians over the repetitions."""

    row: str
    unit: str
    directory_ns: float
    fanstore_ns: float
    ratio: float


def make_files(top: Path) -> None:
    """The files of every kind, with random content of a fixed seed."""
    source = random.Random(1)
    for kind in KINDS:
        for folder in range(kind.folders):
            path = top / kind.name / f"folder-{folder:02}"
            path.mkdir(parents=True)
            for number in range(kind.files_each):
                (path / f"file-{number:05}").write_bytes(source.randbytes(kind.file_bytes))


def compile_reader(out: Path) -> Path:
    """Builds the reader with the C compiler."""
    program = out / "reader"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, *flags, "-o", program, HERE / "reader.c"], check=True)
    return program


class Side:
    """A reader process that answers requests."""

    def __init__(self, command: list[str | Path]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, request: str, kind: str) -> tuple[float, int]:
        """(nanoseconds per unit, sum over what was seen)."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{request} {kind}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != 3:
            raise SystemExit("bench: a reader ended early")
        operations, elapsed_ns, seen = map(int, answer)
        return elapsed_ns / operations, seen

    def close(self) -> int:
        """Lets the reader end; its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout=60)


def measure(directory: Side, fanstore: Side, repetitions: int) -> list[Result]:
    """All rows. The first repetition only warms up."""
    results = []
    for title, request, kind, unit in ROWS:
        pairs = []
        for repetition in range(repetitions + 1):
            (plain_ns, plain_sum), (ours_ns, ours_sum) = (
                side.ask(request, kind) for side in (directory, fanstore)
            )
            if plain_sum != ours_sum:
                raise SystemExit(f"bench: {title}: the two sides saw different data")
            if repetition > 0:
                pairs.append((plain_ns, ours_ns))
        plain, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
        results.append(Result(title, unit, plain, ours, plain / ours))
    return results


def run_bench(work: Path, repetitions: int) -> list[Result]:
    """Makes the data in `work`, packs it and measures."""
    source, dataset = work / "source", work / "dataset"
    make_files(source)
    reader = compile_reader(work)
    subprocess.run([*FANSTORE, "prepare", source, dataset], check=True, stdout=subprocess.DEVNULL)
    mount, local = work / "mount", work / "local"
    local.mkdir()
    options = ["--dataset", dataset, "--mount", mount, "--local-dir", local]
    directory = Side([reader, source])
    fanstore = Side([*FANSTORE, "run", *options, "--", reader, mount])
    try:
        return measure(directory, fanstore, repetitions)
    finally:
        codes = directory.close(), fanstore.close()
        if codes != (0, 0):
            print(f"bench: the readers ended with {codes}", file=sys.stderr)


def print_table(results: list[Result]) -> None:
    print(f"{'':20}{'directory':>14}{'FanStore':>14}{'ratio':>8}")
    for r in results:
        plain, ours = (f"{ns:,.0f} ns" for ns in (r.directory_ns, r.fanstore_ns))
        print(f"{r.row:20}{plain:>14}{ours:>14}{r.ratio:>8.2f}  per {r.unit}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="fail when a ratio is below 1")
    parser.add_argument("--repetitions", type=int, default=9, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    parser.add_argument("--dir", type=Path, help="where to work (default: the temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fanstore-bench-", dir=arguments.dir) as work:
        results = run_bench(Path(work), arguments.repetitions)
    print_table(results)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(r) for r in results], indent=2) + "\n")
    slower = [r.row for r in results if r.ratio < 1]
    if arguments.check and slower:
        print(f"bench: slower than the directory: {', '.join(slower)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
