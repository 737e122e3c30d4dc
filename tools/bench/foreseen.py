"""The rows of `--order`: reads of files that other ranks have, in an order that is known, compared
with reads of local files and of remote ones without an order. Four ranks read at a pace. Also the
cost of a wrong order, and of reads without an order beside a stream that is fetched ahead."""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from data import make_files
from mpi import run_job
from peers import prepare
from readers import WHOLE, compile_c
from results import OURS, Goal, Result
from rows import KIB, Kind
from warm import Settings, in_turns, say

from fanstore.dataset import open_dataset

RANKS = 4
FILES = 2000
PACE = 500  # files per second, on each rank
ROUNDS, REPETITIONS = 2, 3
KINDS = {"4k": Kind("4k", 4 * KIB, 1, FILES), "128k": Kind("128k", 128 * KIB, 1, FILES)}
SLOWER_MOST = {"4k": 2.0, "128k": 1.3}  # times as long as a local read
LOCAL, UNFORESEEN = "local", "no --order"
WRONG_MOST, BESIDE_MOST = 1.03, 2.0  # times as long as without an order, or on an idle node
BESIDE_RANKS, BESIDE_PACE, IDLE = 2, 100, "idle node"
SCRIPT = 'exec "$0" "$1-$FANSTORE_RANK" "$FANSTORE_MOUNT_PREFIX" "$2" "$3"'
# The foreseen stream continues for as long as the reads beside it.
BESIDE = """
"$0" "$1-streamed-$FANSTORE_RANK" "$FANSTORE_MOUNT_PREFIX" "$2" 99 > /dev/null &
"$0" "$1-beside-$FANSTORE_RANK" "$FANSTORE_MOUNT_PREFIX" "$3" 1
kill $!
"""
ALONE = 'exec "$0" "$1-beside-$FANSTORE_RANK" "$FANSTORE_MOUNT_PREFIX" "$3" 1'


def key_of(size: str) -> str:
    """Returns the key of a row."""
    return f"remote-foreseen-{size}"


def wrong_key(size: str) -> str:
    """Returns the key of a row with a wrong order."""
    return f"remote-wrong-order-{size}"


def beside_key(size: str) -> str:
    """Returns the key of a row of reads beside a stream."""
    return f"remote-beside-stream-{size}"


KEYS = [key(size) for key in (key_of, wrong_key, beside_key) for size in KINDS]


def build(work: Path) -> None:
    """Compiles the reader, and packs each kind of files into a dataset with one pack for each rank.
    Also writes lists of the files that each rank is to read: its own, and those of other ranks."""
    compile_c(work, ["paced.c", *WHOLE])
    make_files(work / "source", list(KINDS.values()))
    for kind in KINDS.values():
        source = work / "source" / kind.name / "folder-00"
        prepare(source, work / kind.name, "--partitions", str(RANKS))
        make_lists(work / kind.name, [path.name for path in source.iterdir()])


def make_lists(dataset: Path, names: Sequence[str]) -> None:
    """Writes DATASET-local-RANK and DATASET-remote-RANK; DATASET-wrong-RANK in another order; for
    two ranks, the files of the stream and the files that are read beside it."""
    with open_dataset(dataset) as opened:
        keeper = {n: opened.record(opened.lookup(n.encode())).pack % RANKS for n in names}
    for rank in range(RANKS):
        shuffled = sorted(names)
        random.Random(rank).shuffle(shuffled)
        for which, is_here in (("local", True), ("remote", False)):
            chosen = [name for name in shuffled if (keeper[name] == rank) == is_here]
            write_list(Path(f"{dataset}-{which}-{rank}"), chosen)
        random.Random(rank + RANKS).shuffle(chosen)
        write_list(Path(f"{dataset}-wrong-{rank}"), chosen)
    for rank in range(BESIDE_RANKS):
        elsewhere = [name for name in sorted(names) if keeper[name] % BESIDE_RANKS != rank]
        random.Random(rank).shuffle(elsewhere)
        write_list(Path(f"{dataset}-streamed-{rank}"), elsewhere[200:])
        write_list(Path(f"{dataset}-beside-{rank}"), elsewhere[:200])


def write_list(path: Path, names: Sequence[str]) -> None:
    """Writes names, a line each."""
    path.write_text("\n".join(names) + "\n")


def read(work: Path, size: str, which: str, order: Sequence[str] = ()) -> tuple[float, float]:
    """Makes all ranks read the files of a list. Returns the median and the 99th percentile in ns,
    each as the mean over the ranks."""
    reader = ["sh", "-c", SCRIPT, work / "paced", work / f"{size}-{which}", str(PACE), str(ROUNDS)]
    return run_readers(work, size, RANKS, reader, order)


def run_readers(
    work: Path, size: str, ranks: int, reader: Sequence[str | Path], order: Sequence[str]
) -> tuple[float, float]:
    """Makes ranks run a command that prints figures like `paced`. Returns the means over the
    ranks."""
    options = ["--keep-staged", "--cache-policy", "close", "--replicas", "1", *order]
    printed = run_job(work, ranks, work / size, reader, *options)
    rows = [line.split() for line in printed.splitlines()]
    middle, late = zip(*rows, strict=True)
    return statistics.mean(map(float, middle)), statistics.mean(map(float, late))


def measure_row(work: Path, size: str, repetitions: int) -> Result:
    """Measures and returns one row."""
    say(f"{size} of other ranks, foreseen")
    order = ["--order", f"{work / size}-remote-{{rank}}"]
    ways = {LOCAL: ("local", ()), UNFORESEEN: ("remote", ()), OURS: ("remote", order)}
    sides = {name: partial(read, work, size, *way) for name, way in ways.items()}
    found = in_turns(sides, repetitions)
    lates = {name: statistics.median(late for _, late in runs) for name, runs in found.items()}
    return Result.of(
        "remote", key_of(size), f"{size} of other ranks, foreseen", "file",
        {name: [middle for middle, _ in runs] for name, runs in found.items()},
        [Goal(LOCAL, 1 / SLOWER_MOST[size])],
        f"{PACE} files/s a rank; 99th percentiles: "
        + ", ".join(f"{name} {late / 1e3:.0f} us" for name, late in lates.items()),
        bytes_per_unit=KINDS[size].file_bytes, processes=RANKS,
    )  # fmt: skip


def measure_wrong(work: Path, size: str, repetitions: int) -> Result:
    """Returns a row with medians of reads with a wrong order, and without one."""
    say(f"{size} of other ranks, in another order than foreseen")
    order = ["--order", f"{work / size}-wrong-{{rank}}"]
    ways = {UNFORESEEN: ["--order", "off"], OURS: order}
    sides = {name: partial(read, work, size, "remote", options) for name, options in ways.items()}
    found = in_turns(sides, repetitions)
    return Result.of(
        "remote", wrong_key(size), f"{size} of other ranks, wrong --order", "file",
        {name: [middle for middle, _ in runs] for name, runs in found.items()},
        [Goal(UNFORESEEN, 1 / WRONG_MOST)], f"{PACE} files/s a rank",
        bytes_per_unit=KINDS[size].file_bytes, processes=RANKS,
    )  # fmt: skip


def measure_beside(work: Path, size: str, repetitions: int) -> Result:
    """Returns a row with 99th percentiles of reads without an order, alone and beside a stream."""
    say(f"{size} of another rank, beside a stream")
    order = ["--order", f"{work / size}-streamed-{{rank}}"]
    ways = {IDLE: (ALONE, ["--order", "off"]), OURS: (BESIDE, order)}
    words = [work / "paced", work / size, str(PACE), str(BESIDE_PACE)]
    sides = {
        name: partial(run_readers, work, size, BESIDE_RANKS, ["sh", "-c", script, *words], options)
        for name, (script, options) in ways.items()
    }
    found = in_turns(sides, repetitions)
    return Result.of(
        "remote", beside_key(size), f"{size} beside a stream, 99th percentile", "file",
        {name: [late for _, late in runs] for name, runs in found.items()},
        [Goal(IDLE, 1 / BESIDE_MOST)], f"{BESIDE_PACE} files/s beside {PACE}",
        bytes_per_unit=KINDS[size].file_bytes, processes=BESIDE_RANKS,
    )  # fmt: skip


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Measures the rows whose keys are in `wanted`, and yields the result of each."""
    build(work)
    ways = {key_of: measure_row, wrong_key: measure_wrong, beside_key: measure_beside}
    for (key, row), size in product(ways.items(), KINDS):
        if key(size) in wanted:
            yield row(work, size, min(settings.repetitions, REPETITIONS))
