"""The rows of a million files of 4 KiB in random order, so that no processor cache holds their
metadata. The kernel knows all names of the directory by then, also names that do not exist.

Making them takes minutes; `--keep DIR` leaves the files and the packed dataset for the next run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from data import make_kind
from peers import Place, directory, fanstore, prepare
from readers import Team, compile_reader
from results import DIRECTORY, Goal, Result
from rows import KIB, C, Kind, Row
from warm import Different, Settings, in_turns, say

KIND = Kind("1m", 4 * KIB, 1000, 1000)
WINDOW_NS = 500_000_000  # of each turn: caches that the last turn emptied fill in a few ms
NEEDED_BYTES = 14 << 30  # for the files, the packed dataset and the staged one
ROWS = (
    Row("many-stat", "stat", C, "stat", KIND.name, "call", 6.0),
    Row("many-missing", "stat, missing name", C, "missing", KIND.name, "call", 8.0),
    Row("many-open", "open + close", C, "open", KIND.name, "file", 3.5),
    Row("many-read", "read 4 KiB", C, "read", KIND.name, "file", 3.5),
)
KEYS = [row.key for row in ROWS]


def make(place: Place) -> None:
    """Makes the files and packs them, unless an earlier run left both."""
    if (place.dataset / "manifest.json").exists():
        return
    say("making a million files")
    shutil.rmtree(place.source, ignore_errors=True)
    make_kind(place.source / KIND.name, KIND)
    shutil.rmtree(place.dataset, ignore_errors=True)
    prepare(place.source, place.dataset)


def agree(teams: Sequence[Team], operation: str) -> None:
    """Makes each team do something with every file, which brings all names and bytes to memory.
    Raises Different if they did not see the same."""
    say(f"every file: {operation}")
    if len({team.reader(C).ask(operation, KIND.name).seen for team in teams}) != 1:
        raise Different(f"{operation} of a million files: the sides saw different data")


def measure_row(teams: Sequence[Team], row: Row, settings: Settings) -> Result:
    """Measures one row: all teams in turns, in a new random order each time."""
    say(row.title)
    sides = {
        team.peer.name: partial(team.ns_per_unit, C, row.operation, KIND.name, 1, 1, WINDOW_NS)
        for team in teams
    }
    times = in_turns(sides, settings.repetitions)
    goals = [Goal(DIRECTORY, row.goal or 1.0)]
    return Result.of("many", row.key, row.title, row.unit, times, goals)


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the rows of `wanted`, and the reasons why others are missing. Raises Different."""
    kept = settings.keep or work
    kept.mkdir(parents=True, exist_ok=True)
    if settings.keep is None and shutil.disk_usage(work).free < NEEDED_BYTES:
        yield f"many-*: needs {NEEDED_BYTES >> 30} GiB of room"
        return
    place = Place(work, kept / "source", kept / "dataset")
    make(place)
    program = compile_reader(work)
    with directory(place) as plain, fanstore(place) as ours, ExitStack() as stack:
        teams = [Team(peer, program) for peer in (plain, ours)]
        for team in teams:
            stack.callback(team.close)
        for operation in ("stat", "missing", "open"):
            agree(teams, operation)
        for row in (row for row in ROWS if row.key in wanted):
            if row.operation == "read":
                agree(teams, "sum")
            yield measure_row(teams, row, settings)
