"""The rows of preparing a dataset, compared with tar, and with lz4 compared with LZ4 itself: time
and peak memory."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter_ns

from data import make_files
from peers import FANSTORE
from readers import compile_c
from results import OURS, Goal, Result
from rows import KIB, MIB, Kind
from warm import Settings, in_turns, say

TAR, TAR_SYNC, LZ4 = "tar", "tar + sync", "LZ4 itself"
# On either side one worker per core reads, compresses and writes. FanStore also computes checksums.
LZ4_RATIO = 0.8
REPETITIONS = 5
LOOK_S = 0.02
TREES = {
    "small": (Kind("4k", 4 * KIB, 50, 1000),),
    "large": (Kind("128k", 128 * KIB, 8, 256), Kind("8m", 8 * MIB, 2, 16)),
    "text": (Kind("16k", 16 * KIB, 8, 256, "text"), Kind("2m", 2 * MIB, 8, 40, "text")),
}
TITLES = {
    "small": "prepare 50,000 files of 4 KiB", "large": "prepare 2,080 files, 512 MiB",
    "text": "prepare, lz4, 2,368 files, 672 MiB",
}  # fmt: skip
KEYS = [f"prepare-{tree}" for tree in TREES]


def run_timed(command: Sequence[str | Path], standard_input: str = "") -> tuple[int, int]:
    """Runs a command. Returns nanoseconds from start to end, and its peak memory in KiB (0:
    unknown)."""
    start = perf_counter_ns()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    process.stdin.write(standard_input)
    process.stdin.close()
    peak_kib, ended = 0, os.pidfd_open(process.pid)
    while not select.select([ended], [], [], LOOK_S)[0]:
        peak_kib = max(peak_kib, _peak_kib(process.pid))
    elapsed_ns = perf_counter_ns() - start
    os.close(ended)
    if process.wait() != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return elapsed_ns, peak_kib


def _peak_kib(pid: int) -> int:
    """Returns the largest resident set so far of the program that a process runs now."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def remove(path: Path) -> None:
    """Removes the files that a repetition made."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def commands(work: Path, tree: str) -> dict[str, tuple[list[str | Path], str]]:
    """Returns the commands that are compared on a tree, each with its standard input, by name."""
    source, out = work / f"prepare-{tree}", work / "prepared"
    prepare = [*FANSTORE, "prepare", "--quiet"]
    tar = shutil.which("tar")
    if tree == "text":
        program = compile_c(work, ("lz4copy.c", "paths.c"), "-ldl")
        files = "".join(f"{path}\n" for path in sorted(source.rglob("*")) if path.is_file())
        cores = str(len(os.sched_getaffinity(0)))
        return {
            LZ4: ([program, out, cores], files),
            OURS: ([*prepare, "--codec", "lz4", source, out], ""),
        }
    found: dict[str, tuple[list[str | Path], str]] = {OURS: ([*prepare, source, out], "")}
    if tar is not None:
        found[TAR] = ([tar, "-C", source, "-cf", out, "."], "")
        synced = 'tar -C "$2" -cf "$1" . && sync "$1"'
        found[TAR_SYNC] = (["sh", "-c", synced, "sh", out, source], "")
    return found


def measure_tree(work: Path, tree: str, repetitions: int) -> Result:
    """Measures one row: the whole process of each command, in turn, on a warm tree."""
    sides = commands(work, tree)

    def run(name: str) -> tuple[int, int]:
        say(f"{TITLES[tree]}: {name}")
        remove(work / "prepared")
        return run_timed(*sides[name])

    runs = in_turns({name: partial(run, name) for name in sides}, repetitions, 1)
    remove(work / "prepared")
    shown = [
        f"{name} {max(kib for _, kib in each) / 1024:.0f} MiB"
        for name, each in runs.items() if name != TAR_SYNC
    ]  # fmt: skip
    return Result.of(
        "preparing", f"prepare-{tree}", TITLES[tree], "tree",
        {name: [ns for ns, _ in each] for name, each in runs.items()},
        [Goal(TAR, 1.0), Goal(LZ4, LZ4_RATIO)], "peak memory " + ", ".join(shown),
    )  # fmt: skip


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the rows of `wanted`, and the reasons why others are missing."""
    for tree, kinds in TREES.items():
        if f"prepare-{tree}" not in wanted:
            continue
        source = work / f"prepare-{tree}"
        make_files(source, kinds)
        result = measure_tree(work, tree, min(settings.repetitions, REPETITIONS))
        yield result if len(result.times_ns) > 1 else f"prepare-{tree}: tar is not installed"
        shutil.rmtree(source)
