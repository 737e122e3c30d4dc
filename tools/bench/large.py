"""The rows of files of 64 MiB that are mapped and touched page by page, as np.memmap and
safetensors read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from data import make_kind
from peers import Place, directory, fanstore, prepare
from readers import Team, compile_reader
from results import DIRECTORY, Goal, Result
from rows import MIB, C, Kind
from warm import Different, Settings, in_turns, say

KEYS = ["mmap-64m"]
KIND = Kind("64m", 64 * MIB, 2, 2)


def measure(work: Path, wanted: Sequence[str], settings: Settings) -> Iterator[Result | str]:
    """Yields the row. Raises Different."""
    say("mmap + touch 64 MiB")
    place = Place(work, work / "source", work / "dataset")
    make_kind(place.source / KIND.name, KIND)
    prepare(place.source, place.dataset)
    program = compile_reader(work)
    with directory(place) as plain, fanstore(place) as ours:
        teams = [Team(peer, program) for peer in (plain, ours)]
        seen = {team.reader(C).ask("mmap", KIND.name).seen for team in teams}
        if len(seen) != 1:
            raise Different("mmap + touch 64 MiB: the sides saw different data")
        sides = {
            team.peer.name: partial(
                team.ns_per_unit, C, "mmap", KIND.name, 1, 1, settings.window_ns
            )
            for team in teams
        }
        times = in_turns(sides, settings.repetitions)
        for team in teams:
            team.close()
    yield Result.of(
        "large", KEYS[0], "mmap + touch 64 MiB", "file", times,
        [Goal(DIRECTORY, 1.0)], bytes_per_unit=KIND.file_bytes,
    )  # fmt: skip
