"""The rows of files of 64 MiB that are mapped and touched page by page, as np.memmap and
safetensors read them."""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from data import make_kind
from peers import FANSTORE, Place, directory, fanstore
from readers import Team, compile_reader
from results import DIRECTORY, Goal, Result
from rows import MIB, C, Kind
from warm import Different, Settings, say

KEY = "mmap-64m"
KIND = Kind("64m", 64 * MIB, 2, 2)


def row_keys() -> list[str]:
    """Returns the keys of the rows that this module measures."""
    return [KEY]


def measure(
    work: Path, wanted: Sequence[str], settings: Settings
) -> tuple[list[Result], list[str]]:
    """Returns the rows of `wanted`, and the reasons why others are missing. Raises Different."""
    if not wanted:
        return [], []
    say("mmap + touch 64 MiB")
    place = Place(work, work / "source", work / "dataset")
    make_kind(place.source / KIND.name, KIND)
    prepare = [*FANSTORE, "prepare", "--quiet", place.source, place.dataset]
    subprocess.run(prepare, check=True, stdout=subprocess.DEVNULL)
    program = compile_reader(work)
    times: dict[str, list[float]] = {}
    with directory(place) as plain, fanstore(place) as ours:
        teams = [Team(peer, program) for peer in (plain, ours)]
        seen = {team.reader(C).ask("mmap", KIND.name).seen for team in teams}
        if len(seen) != 1:
            raise Different("mmap + touch 64 MiB: the sides saw different data")
        for _ in range(settings.repetitions):
            for team in teams:
                taken = team.ns_per_unit(C, "mmap", KIND.name, 1, 1, settings.window_ns)
                times.setdefault(team.peer.name, []).append(taken)
        for team in teams:
            team.close()
    return [
        Result(
            "large", KEY, "mmap + touch 64 MiB", "file",
            {name: statistics.median(values) for name, values in times.items()},
            {name: (min(values), max(values)) for name, values in times.items()},
            [Goal(DIRECTORY, 1.0)], bytes_per_unit=KIND.file_bytes,
        )
    ], []  # fmt: skip
