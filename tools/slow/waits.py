"""How long programs wait for files of a slow file system while their nodes fill their shares, and
while these do not (--stage lazy). The programs read in an order that nobody knows, with pauses.

    python tools/slow/waits.py --ranks 2 --total 20M

Prints percentiles in milliseconds over all ranks. Each rank stands for a node.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from epochs import make_files, prepare
from slow import SlowTree, parse_curve

LIMIT_S = 300
# Reads files at random for some seconds; prints the milliseconds of each.
READ = """
import os, random, sys, time
top, seconds = sys.argv[1], float(sys.argv[2])
paths = [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
random.seed(top)
random.shuffle(paths)
end = time.monotonic() + seconds
for path in paths:
    begun = time.perf_counter()
    with open(path, "rb") as file:
        file.read()
    print((time.perf_counter() - begun) * 1e3)
    time.sleep(random.random() * 0.06)
    if time.monotonic() > end:
        break
"""


def waits_ms(source: Path, scratch: Path, stage: str, options: argparse.Namespace) -> list[float]:
    """Returns the times of all reads, in ascending order."""
    tree = SlowTree(source, scratch / "mount", total_bytes_per_s=parse_curve(options.total))
    rank = f"{scratch}/rank$PMI_RANK"
    places = f"--mount {rank}/seen --local-dir {rank} --output-dir {scratch}/out"
    serve = f"{sys.executable} -m fanstore run --quiet {scratch}/mount/dataset {places}"
    serve += f" --order off --replicas 1 --stage {stage}"
    script = f'mkdir {rank}; exec {serve} -- {sys.executable} -c "$0" {rank}/seen {options.seconds}'
    mpiexec = Path(sys.executable).with_name("mpiexec")
    with tree:
        done = subprocess.run(
            [mpiexec, "-n", str(options.ranks), "sh", "-c", script, READ],
            stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True,
            env={**os.environ, "FANSTORE_NEIGHBOURS": "off"},  # as on nodes of their own
        )  # fmt: skip
    return sorted(map(float, done.stdout.split()))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--files", type=int, default=2688)
    parser.add_argument("--bytes", type=int, default=112 << 10)
    parser.add_argument("--total", default="20M", help="bytes a second of all reads")
    parser.add_argument("--seconds", type=float, default=5)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        make_files(source / "files", options.files, options.bytes)
        prepare(source, ["packed"])
        for stage in ("lazy", "plan"):
            with tempfile.TemporaryDirectory() as scratch:
                found = waits_ms(source, Path(scratch), stage, options)
            shown = "  ".join(f"p{n} {found[len(found) * n // 100]:6.1f}" for n in (50, 90, 99))
            print(f"{stage:5} {len(found):5} reads  {shown}  ms", flush=True)


if __name__ == "__main__":
    main()
