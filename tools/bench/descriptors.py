"""The rows of a process's first open, and of its forks after that, for several limits of
descriptors and numbers of threads.

Each reading takes a new process, because the descriptors that FanStore keeps for itself are opened
with the first open. The limits are those of login shells, of batch systems and of containers."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from outside import job_environment, sides_of
from readers import compile_c
from results import DIRECTORY, OURS, Result
from warm import Settings, in_turns, say

LIMITS = (1024, 20_000, 1_048_576)
THREADS = (0, 3)
PROCESSES = 3  # for each side, in a repetition


def keys_of(limit: int, threads: int) -> tuple[str, str]:
    """Returns the keys of the two rows that one process of `first` measures."""
    end = f"{limit}-threads" if threads else f"{limit}"
    return f"first-open-{end}", f"first-fork-{end}"


KEYS = [key for limit in LIMITS for threads in THREADS for key in keys_of(limit, threads)]


def titles(limit: int, threads: int) -> tuple[str, str]:
    """Returns the titles of these two rows in the table."""
    end = f", limit {limit:,}" + (", with threads" if threads else "")
    return f"first open{end}", f"fork after it{end}"


def run_first(command: Sequence[str | Path], environment: Mapping[str, str]) -> list[int]:
    """Returns the nanoseconds of the first open and of a fork."""
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return [int(word) for word in done.stdout.split()]


def measure_pair(
    program: Path, paths: Mapping[str, Path], sides: Mapping[str, dict[str, str]],
    limit: int, threads: int, readings: int,
) -> Iterator[Result]:  # fmt: skip
    """Measures both rows: the sides take turns, and the first turn only warms up."""
    runs = {
        name: partial(run_first, [program, path, str(threads), str(limit)], sides[name])
        for name, path in paths.items()
    }
    taken = in_turns(runs, readings, 1)
    for at, key in enumerate(keys_of(limit, threads)):
        times = {name: [numbers[at] for numbers in all_] for name, all_ in taken.items()}
        yield Result.of("descriptors", key, titles(limit, threads)[at], "call", times)


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the rows of `wanted`, and names those whose limit this process may not set."""
    program = compile_c(work, ("first.c",), "-pthread")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with job_environment(work) as environment:
        plain, _, ours = sides_of(environment).values()
        sides = {DIRECTORY: plain, OURS: ours}
        paths = {DIRECTORY: work / "source" / "file", OURS: work / "mount" / "file"}
        for limit, threads in product(LIMITS, THREADS):
            keys = [key for key in keys_of(limit, threads) if key in wanted]
            if limit > most:
                yield from (f"{key}: no limit above {most} may be set here" for key in keys)
            elif keys:
                say(titles(limit, threads)[0])
                readings = settings.repetitions * PROCESSES
                pair = measure_pair(program, paths, sides, limit, threads, readings)
                yield from (result for result in pair if result.key in keys)
