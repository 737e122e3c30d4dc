"""The row of two programs on one node that read at different paces from a slow shared file system
(tools/slow), each its own dataset in a known order: how long the one waits that waits longer."""

from __future__ import annotations

import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from data import make_files
from peers import FANSTORE, prepare
from results import OURS, Goal, Result
from rows import KIB, Kind
from storage import SlowTree
from warm import Settings, in_turns, say

KEYS = ["streams-slower"]
BATCHES = {"fast": 100, "slow": 10}  # files that each reads at once
STEP_S, STEPS = 0.5, 16
FILES, FILE_BYTES = 2000, 64 * KIB
RATE_BYTES, LATENCY_S, CACHE_MIB = 16_000_000, 0.01, 20
EVENLY, REPETITIONS = "even split", 3

# Reads a batch of files in each step. Prints how long all reads took together, in ns.
READER = """
import os, sys, time
root, batch, step_s, steps = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
names = sorted(os.listdir(root))
due, waited = time.perf_counter(), 0
for step in range(steps):
    due = max(due + step_s, time.perf_counter())
    time.sleep(due - time.perf_counter())
    begun = time.perf_counter()
    for name in names[step * batch : step * batch + batch]:
        with open(os.path.join(root, name), "rb", buffering=0) as stream:
            while stream.read(1 << 20):
                pass
    waited += time.perf_counter() - begun
print(int(waited * 1e9))
"""

# A FanStore that does not know how fast each stream reads, and so has equally many records of each
# ahead.
WITHOUT_PACE = """
from fanstore.__main__ import main
from fanstore.node.core import Node
told = Node.pass_order
Node.pass_order = lambda self, order, position, read: told(self, order, position, 0)
main()
"""


def build(work: Path) -> None:
    """Packs two datasets; `order` names all files."""
    (work / "shared").mkdir()
    make_files(work / "source-streams", [Kind("all", FILE_BYTES, 1, FILES)])
    source = work / "source-streams" / "all" / "folder-00"
    lines = []
    for name in BATCHES:
        prepare(source, work / "shared" / name)
        lines += [f"{work / 'mounts' / name}/{each}" for each in sorted(os.listdir(source))]
        (work / "mounts" / name).mkdir(parents=True)
    (work / "order").write_text("\n".join(lines) + "\n")
    (work / "local-streams").mkdir()


def stall_ns(work: Path, fanstore: Sequence[str]) -> dict[str, int]:
    """Runs both programs at once in one job; returns how long each waited."""
    mounts = [(("--dataset", work / "slowly" / n, "--mount", work / "mounts" / n)) for n in BATCHES]
    readers = " & ".join(
        f'"$0" -c "$1" {shlex.quote(str(work / "mounts" / name))} {batch} {STEP_S} {STEPS}'
        f" > {shlex.quote(str(work / name))}"
        for name, batch in BATCHES.items()
    )
    options = [
        "--quiet", "--stage", "plan", "--local-bytes", "1M", "--cache-bytes", f"{CACHE_MIB}M",
        "--cache-policy", "close", "--local-dir", work / "local-streams",
        "--output-dir", work / "output-streams", "--order", work / "order",
    ]  # fmt: skip
    command = [*fanstore, "run", *options, *(word for mount in mounts for word in mount)]
    command += ["--", "sh", "-c", f"{readers} & wait", sys.executable, READER]
    slow = SlowTree(
        work / "shared", work / "slowly", latency_s={"read": LATENCY_S},
        total_bytes_per_s=RATE_BYTES, direct=True,
    )  # fmt: skip
    with slow:
        subprocess.run([*map(str, command)], check=True)
    return {name: int((work / name).read_text()) for name in BATCHES}


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the row of this module, and yields its result."""
    say("two streams of different need")
    build(work)
    ways = {EVENLY: [sys.executable, "-c", WITHOUT_PACE], OURS: FANSTORE}
    sides = {name: partial(stall_ns, work, fanstore) for name, fanstore in ways.items()}
    found = in_turns(sides, min(settings.repetitions, REPETITIONS))
    seen = "; ".join(
        f"{name}: "
        + ", ".join(
            f"{each} {statistics.median(r[each] for r in runs) / 1e9:.2f} s" for each in BATCHES
        )
        for name, runs in found.items()
    )
    yield Result.of(
        "storage", KEYS[0], "two streams of different need: the longer wait", "job",
        {name: [max(run.values()) for run in runs] for name, runs in found.items()},
        [Goal(EVENLY, 2.0)],
        f"{BATCHES['fast']} and {BATCHES['slow']} files of 64 KiB each {STEP_S} s, of "
        f"{RATE_BYTES // 1000000} MB/s; {seen}", bytes_per_unit=FILE_BYTES, processes=2,
    )  # fmt: skip
