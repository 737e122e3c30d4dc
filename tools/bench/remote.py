"""Compares fetches through FanStore's transport with bare MPI requests and replies, on two ranks.

Each repetition runs one program after the other, in turn, so that whatever else the machine does
meets both alike. The ratio is bare MPI's median time over FanStore's: 1 is as fast. FanStore
fetches large files in pieces of 1 MiB, bare MPI as a whole. FanStore's column is the transport
alone: reads through the shim would be one more program in PROGRAMS.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from fanstore.transport.build import find_mpicc

HERE = Path(__file__).resolve().parent
TRANSPORT = HERE.parent.parent / "csrc" / "transport"
FLAGS = "-std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wno-missing-field-initializers".split()
PROGRAMS = {
    "bare": [HERE / "remote_bare.c"],
    "transport": [HERE / "remote_transport.c", *sorted(TRANSPORT.glob("*.c"))],
}
KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 128 * KIB, 2 * MIB, 8 * MIB)
PIECE_BYTES = MIB
LIMIT_S = 120


def compile_programs(folder: Path) -> None:
    for name, sources in PROGRAMS.items():
        command = [*find_mpicc(), *FLAGS, "-o", str(folder / name), *map(str, sources)]
        subprocess.run(command, check=True)


def measure(program: Path, file_bytes: int, outstanding: int, files: int) -> float:
    """Nanoseconds a file, the median of a few rounds."""
    pieces = 1
    if program.name != "bare" and file_bytes > PIECE_BYTES:
        pieces = file_bytes // PIECE_BYTES
    figures = (file_bytes // pieces, outstanding * pieces, files * pieces, 5)
    command = ["mpiexec", "-n", "2", str(program), *map(str, figures)]
    mpiexec = Path(find_mpicc()[0]).parent / "mpiexec"
    command[0] = str(mpiexec) if mpiexec.exists() else command[0]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_S)
    return statistics.median(map(float, done.stdout.split())) * pieces


def compare(folder: Path, file_bytes: int, outstanding: int, repetitions: int) -> dict[str, float]:
    files = max(8, min(2000, 256 * MIB // file_bytes))
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(repetitions):
        for name in PROGRAMS:
            times[name].append(measure(folder / name, file_bytes, outstanding, files))
    medians = {f"{name}_ns": statistics.median(values) for name, values in times.items()}
    ratio = medians["bare_ns"] / medians["transport_ns"]
    return {"file_bytes": file_bytes, "outstanding": outstanding, **medians, "ratio": ratio}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--outstanding", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    arguments = parser.parse_args()
    rows = []
    print(f"{'bytes':>9} {'at once':>7} {'bare us':>10} {'FanStore us':>12} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as scratch:
        compile_programs(Path(scratch))
        for file_bytes in SIZES:
            for outstanding in arguments.outstanding:
                row = compare(Path(scratch), file_bytes, outstanding, arguments.repetitions)
                rows.append(row)
                print(
                    f"{file_bytes:9d} {outstanding:7d} {row['bare_ns'] / 1e3:10.1f} "
                    f"{row['transport_ns'] / 1e3:12.1f} {row['ratio']:6.2f}",
                    flush=True,
                )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
