"""The rows of look-ups among ten and a hundred million names, compared with FanStore's own among a
million: the metadata of a file comes from ever slower caches. tools/make_index.py makes the
datasets."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from peers import Place, serving
from readers import HERE, compile_c
from results import OURS, Goal, Result
from startup import MAKE_INDEX
from warm import Settings, say

BASE, FILES_EACH, LOOKS = 10**6, 1000, 500_000
SIZES = {"10m": (10**7, 0.75), "100m": (10**8, 0.5)}
# Bytes of index for each file, made and staged, with half as much again.
BYTES_A_FILE = 260
OPERATIONS = {"stat": "stat", "missing": "miss", "open": "open+close"}
ONE_MILLION = "1 million"
KEYS = [f"most-{operation}-{size}" for size in SIZES for operation in OPERATIONS]


def looks(work: Path, files: int, rounds: int) -> dict[str, list[float]]:
    """Returns the nanoseconds of processor time for each operation, by name, in each round."""
    say(f"{files:,} names")
    dataset = work / f"dataset-{files}"
    made = [sys.executable, MAKE_INDEX, dataset, "--files", str(files), "--no-entries"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    place = Place(work, dataset, dataset)
    times: dict[str, list[float]] = {}
    with serving(f"own-{files}", place, dataset) as peer:
        shutil.rmtree(dataset)
        shape = [str(files), str(FILES_EACH), str(LOOKS)]
        for _ in range(rounds):
            done = subprocess.run(
                [*peer.command, work / "names", peer.root, *shape],
                check=True, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            for name, taken in re.findall(r"(\S+) (\d+)", done.stdout):
                times.setdefault(name, []).append(float(taken))
    shutil.rmtree(work / f"local-own-{files}", ignore_errors=True)
    return times


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the rows of `wanted`, and the reasons why others are missing."""
    rounds = min(settings.repetitions, 3)
    compile_c(work, [str(HERE.parent / "scale" / "names.c")])
    base: dict[str, list[float]] = {}
    for size, (files, goal) in SIZES.items():
        keys = {f"most-{operation}-{size}": operation for operation in OPERATIONS}
        chosen = {key: OPERATIONS[name] for key, name in keys.items() if key in wanted}
        if not chosen:
            continue
        if shutil.disk_usage(work).free < files * BYTES_A_FILE:
            yield f"most-*-{size}: needs {files * BYTES_A_FILE >> 30} GiB of room"
            continue
        base = base or looks(work, BASE, rounds)
        times = looks(work, files, rounds)
        for key, name in chosen.items():
            yield Result.of(
                "most", key, f"{name}, {files // BASE} million", "call",
                {ONE_MILLION: base[name], OURS: times[name]}, [Goal(ONE_MILLION, goal)],
            )  # fmt: skip
