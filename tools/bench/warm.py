"""Warm rows: asks every peer in turn, in each repetition."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from peers import Peer
from readers import Team
from results import DIRECTORY, OURS, Goal, Result
from rows import PYTHON, Case, Kind

# Few repetitions, because a new DataLoader costs the start of its workers.
SLOW_OPERATIONS, SLOW_REPETITIONS = ("dataloader",), 3


T = TypeVar("T")


class Different(Exception):
    """Two sides read different data."""


@dataclass(frozen=True)
class Settings:
    """How many repetitions, how long each measurement lasts, whether a quarter of the files is
    enough, and where the million files of many.py are kept for another run."""

    repetitions: int
    window_ns: int
    quick: bool = False
    keep: Path | None = None


def say(text: str) -> None:
    """Prints the progress of the suite, if stderr is a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def in_turns(
    sides: Mapping[str, Callable[[], T]], turns: int, warm_ups: int = 0
) -> dict[str, list[T]]:
    """Asks all sides in each turn, so that disturbances of the machine affect all of them alike.
    Returns what each side answered, by name; first come `warm_ups` turns that do not count."""
    answers: dict[str, list[T]] = {name: [] for name in sides}
    for turn in range(-warm_ups, turns):
        for name, ask in sides.items():
            answer = ask()
            if turn >= 0:
                answers[name].append(answer)
    return answers


def goals_of(case: Case, names: Sequence[str]) -> list[Goal]:
    """Returns the goals of a warm row: its ratio to the directory, and to be no slower than a
    peer."""
    row = case.row
    if case.threads > 1 or not row.held:
        return []
    goals = [Goal(name, 1.0) for name in names if name != OURS]
    if row.goal is not None and case.processes == 1:
        goals = [Goal(DIRECTORY, row.goal), *(g for g in goals if g.than != DIRECTORY)]
    return goals


class Warm:
    """The readers of all peers; measures rows with them."""

    def __init__(self, program: Path, peers: Sequence[Peer], kinds: Sequence[Kind]) -> None:
        self._teams = [Team(peer, program) for peer in peers]
        self._kinds = {kind.name: kind for kind in kinds}
        self._can: dict[str, str] = {}

    def __enter__(self) -> Warm:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all readers; new ones start when more rows are measured."""
        with ExitStack() as stack:
            for team in self._teams:
                stack.callback(team.close)

    def why_not(self, case: Case) -> str | None:
        """Returns why a row cannot be measured here; None if it can."""
        if case.row.kind not in self._kinds:
            return f"no files {case.row.kind}"
        if case.row.reader != PYTHON:
            return None
        operation = case.row.operation
        if operation not in self._can:
            reader = self._teams[0].reader(PYTHON)
            reader.send(f"can {operation}")
            self._can[operation] = reader.receive()
        answer = self._can[operation]
        return None if answer == "yes" else answer.removeprefix("no ")

    def measure(self, case: Case, settings: Settings) -> Result:
        """Measures and returns one row. Raises Different or ReaderEnded."""
        row = case.row
        say(f"{row.title}, {case.processes} processes, {case.threads} threads")
        self._check_sums(case)
        repetitions = settings.repetitions
        if row.operation in SLOW_OPERATIONS:
            repetitions = min(repetitions, SLOW_REPETITIONS)
        sides = {
            team.peer.name: partial(
                team.ns_per_unit, row.reader, row.operation, row.kind, case.processes,
                case.threads, settings.window_ns,
            )
            for team in self._teams
        }  # fmt: skip
        return self._result(case, in_turns(sides, repetitions, 1))

    def _check_sums(self, case: Case) -> None:
        row = case.row
        for number in range(case.processes):
            sums = {team.sum(row.reader, number, row.kind) for team in self._teams}
            if len(sums) != 1:
                raise Different(f"{row.title}: the sides saw different data")

    def _result(self, case: Case, times: dict[str, list[float]]) -> Result:
        row = case.row
        whole = row.unit == "file" and row.operation != "open"
        size = self._kinds[row.kind].file_bytes if whole else 0
        return Result.of(
            "warm", case.key, row.title, row.unit, times, goals_of(case, list(times)),
            bytes_per_unit=size, processes=case.processes, threads=case.threads,
        )  # fmt: skip
