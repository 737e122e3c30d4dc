"""How long Python takes to import modules from an environment on a slow file system: alone, with
FanStore, from a squashfs image (if squashfuse_ll and mksquashfs are installed), and from the local
disk. Each way begins with a cold mount; then the same is done once more.

    python tools/slow/imports.py ~/venvs/torch --modules torch transformers --processes 1 16

Prints seconds: until the last of the processes that were started at once has ended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from slow import SlowTree, parse_curve, parse_latency, parse_rate

LIMIT_S = 1800
IMAGE = "environment.squashfs"
WAYS = ("plain", "fanstore", "squashfuse", "local")


def import_twice(python: str, modules: Sequence[str], processes: int) -> list[float]:
    """Starts processes that import the modules, and the same again. Returns two times."""
    times, command = [], [python, "-c", f"import {', '.join(modules)}"]
    for _ in range(2):
        begun_s = time.monotonic()
        started = [subprocess.Popen(command) for _ in range(processes)]
        if any([each.wait(LIMIT_S) for each in started]):
            raise SystemExit(f"{python} cannot import {', '.join(modules)}")
        times.append(time.monotonic() - begun_s)
    return times


@contextlib.contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """Mounts a squashfs image with squashfuse."""
    at.mkdir()
    subprocess.run(["squashfuse_ll", image, at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)


def measure(way: str, images: Path, processes: int, options: argparse.Namespace) -> list[float]:
    """Returns the time with a cold mount, and the second time. images: the directory with the image
    of the environment."""
    with tempfile.TemporaryDirectory(dir=options.dir) as folder, contextlib.ExitStack() as stack:
        scratch, words = Path(folder), []
        environment = options.environment
        if way != "local":
            source = images if way == "squashfuse" else environment
            tree = SlowTree(
                source, scratch / "mount", latency_s=parse_latency(options.latency),
                stream_bytes_per_s=parse_rate(options.stream),
                total_bytes_per_s=parse_curve(options.total),
            )  # fmt: skip
            environment = stack.enter_context(tree)
        if way == "squashfuse":
            environment = stack.enter_context(mounted(environment / IMAGE, scratch / "image"))
        elif way == "fanstore":
            (scratch / "local").mkdir()
            node = ["--local-dir", scratch / "local", "--output-dir", scratch / "out"]
            words = [sys.executable, "-m", "fanstore", "run", "--quiet", environment, *node, "--"]
        inner = [sys.executable, __file__, str(environment), "--inner", "--modules"]
        done = subprocess.run(
            [*words, *inner, *options.modules, "--processes", str(processes)],
            stdout=subprocess.PIPE, check=True, timeout=LIMIT_S,
            env={**os.environ, "XDG_CACHE_HOME": str(scratch / "cache")},
        )  # fmt: skip
    times: list[float] = json.loads(done.stdout)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("environment", type=Path, help="a virtual environment")
    parser.add_argument("--modules", nargs="+", default=["torch"])
    parser.add_argument("--processes", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--latency", default="1ms", help="of each call [1ms]")
    parser.add_argument("--stream", default="200M", help="bytes/s of an open file [200M]")
    parser.add_argument("--total", default="1G", help="bytes/s of all together [1G]")
    parser.add_argument("--dir", type=Path, help="where to work [the temporary directory]")
    parser.add_argument("--inner", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inner:
        python = str(options.environment / "bin" / "python")
        print(json.dumps(import_twice(python, options.modules, options.processes[0])))
        return
    has_squashfs = all(map(shutil.which, ("mksquashfs", "squashfuse_ll")))
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        images = Path(folder)
        if has_squashfs:
            words = ["mksquashfs", options.environment, images / IMAGE, "-comp", "lz4"]
            subprocess.run([*words, "-quiet", "-no-progress"], check=True)
        print(f"{'':12}" + "".join(f"{n:>4} cold {n:>4} again" for n in options.processes))
        for way in WAYS:
            if way != "squashfuse" or has_squashfs:
                times = [measure(way, images, count, options) for count in options.processes]
                cells = "".join(f"{cold:9.1f} {again:10.1f}" for cold, again in times)
                print(f"{way:12}{cells}", flush=True)


if __name__ == "__main__":
    main()
