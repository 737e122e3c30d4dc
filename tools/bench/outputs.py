"""What changing outputs costs, call by call, beside the local file system.

    outputs.py [--count N] [--rounds N]

Prints microseconds a call: the median of `count` calls, the best of `rounds`. One node and process,
files of 4 KiB; the output directory is on the same disk, and stage-out goes on meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

BLOCK = os.urandom(4096)
LIMIT_S = 600


def median_us(call: Callable[[str], object], paths: Iterable[str]) -> float:
    """Of one call for each path."""
    took = []
    for path in paths:
        start = time.perf_counter_ns()
        call(path)
        took.append(time.perf_counter_ns() - start)
    return statistics.median(took) / 1000


def create(path: str) -> None:
    """A new file, written and closed."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, BLOCK)
    os.close(fd)


def missing(path: str) -> None:
    """A look at a name that is not there."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return
    raise AssertionError(path)


def measure(top: str, count: int) -> dict[str, float]:
    """Each call in a directory of its own. Microseconds."""
    os.makedirs(top)
    files = [f"{top}/f{n}" for n in range(count)]
    found = {"create, write, close": median_us(create, files)}
    found["create in an input directory"] = median_us(create, (f"{top}-{n}" for n in range(count)))
    found["stat"] = median_us(os.stat, files)
    found["stat of a missing name"] = median_us(missing, (f"{path}-none" for path in files))
    found["open, close to read"] = median_us(lambda path: os.close(os.open(path, 0)), files)
    found["rename"] = median_us(lambda path: os.rename(path, path + "r"), files)
    found["overwrite"] = median_us(create, (path + "r" for path in files))
    found["mkdir"] = median_us(os.mkdir, (path + "d" for path in files))
    found["listing, each name"] = median_us(lambda path: os.listdir(path), [top] * 5) / (2 * count)
    found["unlink"] = median_us(os.unlink, (path + "r" for path in files))
    found["rmdir"] = median_us(os.rmdir, (path + "d" for path in files))
    return found


def best(rounds: list[dict[str, float]]) -> dict[str, float]:
    """The least of each."""
    return {name: min(each[name] for each in rounds) for name in rounds[0]}


def inside(tops: list[str], count: int) -> list[dict[str, float]]:
    """The rounds in one place."""
    return [measure(top, count) for top in tops]


def run(scratch: Path, count: int, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """On the local file system and in a mount."""
    fanstore = [sys.executable, "-m", "fanstore"]
    source, dataset, mount = scratch / "source", scratch / "data.fan", scratch / "mount"
    source.mkdir()
    (source / "input").write_bytes(b"an input")
    subprocess.run([*fanstore, "prepare", source, dataset], check=True, capture_output=True)
    local = inside([str(scratch / f"local-{n}") for n in range(rounds)], count)
    said = scratch / "said.json"
    tops = [str(mount / f"outputs-{n}") for n in range(rounds)]
    command = [sys.executable, __file__, "--inside", str(said), str(count), *tops]
    options = ["--dataset", dataset, "--mount", mount, "--output-dir", scratch / "out"]
    argv = [*fanstore, "run", *options, "--local-dir", scratch / "node", "--", *command]
    (scratch / "node").mkdir()
    subprocess.run(argv, check=True, timeout=LIMIT_S, stderr=subprocess.DEVNULL)
    return best(local), best(json.loads(said.read_text()))


def main() -> int:
    """Measures and prints a table."""
    if sys.argv[1:2] == ["--inside"]:
        said, count, *tops = sys.argv[2:]
        Path(said).write_text(json.dumps(inside(tops, int(count))))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-outputs-") as scratch:
        local, mount = run(Path(scratch), options.count, options.rounds)
    print(f"{'microseconds a call':32}{'local':>10}{'mount':>10}")
    for name, value in local.items():
        print(f"{name:32}{value:10.1f}{mount[name]:10.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
