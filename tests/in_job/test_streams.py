"""Iterators that go through lists of paths, or through numbers of files."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fanstore.in_job import files, rows, shards
from fanstore.in_job.epochs import number_in
from fanstore.in_job.streams import Streams

_COUNT = 60


class Told:
    """Keeps what a teller would send."""

    def __init__(self) -> None:
        self.paths: list[list[str]] = []
        self.said: list[str] = []

    def tell(self, message: Any, parts: Any) -> None:
        paths = os.fsdecode(b"".join(parts["paths"])).split("\0")[:-1]
        if "indices" in parts:
            paths = [paths[at] for at in array("q", b"".join(parts["indices"]))]
        assert len(paths) == message["sampler"]["samples"]
        self.paths.append(paths)

    def say(self, why: str) -> None:
        self.said.append(why)

    def failed(self, error: Exception) -> None:
        raise error


class Owner:
    """Makes iterators: a dataset, or a generator of tf.data."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def numbers(self, row: Iterable[int], opened: Callable[[str], None], times: int = 1) -> Any:
        for number in row:
            if number < len(self.paths):
                opened(self.paths[number])
            for _ in range(times):
                yield number


class Watched:
    """Streams over `paths`, which takes part in the reads of iterators."""

    def __init__(self, paths: list[str]) -> None:
        self.paths, self.told, self.opened = paths, Told(), 0
        self.streams = Streams(
            rows, files, shards, number_in, "stream", self.told, lambda: self.opened
        )

    def open(self, path: str) -> None:
        self.opened = os.stat(path).st_ino

    def draw(self, iterator: Iterator[Any], owner: Any, count: int, turn: int = 0) -> None:
        for _ in range(count):
            self.streams.drawing(iterator, owner, turn, owner, "Owner")
            next(iterator, None)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    paths = [str(tmp_path / f"f{number:02}") for number in range(_COUNT)]
    for path in paths:
        Path(path).touch()
    monkeypatch.setattr(files, "_MAJOR", os.major(os.stat(tmp_path).st_dev))
    return Watched(paths)


def test_numbers_of_files_are_announced_once(watched: Watched) -> None:
    for row in (range(_COUNT), list(range(_COUNT)), range(_COUNT - 1, -1, -1)):
        for times in (1, 3):
            watched.told.paths.clear()
            owner = Owner(watched.paths)
            watched.draw(owner.numbers(row, watched.open, times), owner, times * _COUNT)
            (said,) = watched.told.paths
            assert said == [watched.paths[number] for number in row][-len(said) :]
            assert len(said) > _COUNT - 5


def test_a_second_pass_through_the_numbers_is_announced(watched: Watched) -> None:
    owner = Owner(watched.paths)
    twice = (each for _ in range(2) for each in owner.numbers(range(_COUNT), watched.open))
    watched.draw(twice, owner, 2 * _COUNT)
    assert len(watched.told.paths) == 2


def test_huge_rows_are_not_expanded(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "INDICES_MAX", 2 * _COUNT)
    expanded: list[int] = []
    real = rows.indices_of
    monkeypatch.setattr(rows, "indices_of", lambda row: expanded.append(len(row)) or real(row))
    for row in (range(sys.maxsize), range(-5, 1 << 70), list(range(3 * _COUNT))):
        owner = Owner(watched.paths)
        watched.draw(owner.numbers(row, watched.open), owner, 9)
    assert (any(expanded), watched.told.paths) == (False, [])


def test_nothing_is_looked_up_before_a_file_is_opened(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "columns_in", lambda *_: pytest.fail("looked for lists of paths"))
    owner = Owner(watched.paths)
    watched.draw(owner.numbers(range(_COUNT), lambda _: None), owner, 9)


def test_an_owner_whose_iterators_take_turns_is_left_alone(watched: Watched) -> None:
    owner = Owner(watched.paths)
    iterators = [iter(path for path in list(watched.paths)) for _ in range(4)]
    for _ in range(10):
        for turn, iterator in enumerate(iterators):
            watched.draw(iterator, owner, 1, turn)
    assert len(watched.told.paths) == 4  # each once, before the first was asked again
    watched.told.paths.clear()
    for turn in (4, 5):
        watched.draw(iter(list(watched.paths)), owner, 9, turn)
    assert watched.told.paths == []


def test_iterators_one_after_the_other_are_each_announced(watched: Watched) -> None:
    owner = Owner(watched.paths)
    for turn in range(3):
        watched.draw((path for path in list(watched.paths)), owner, _COUNT, turn)
    assert [len(paths) for paths in watched.told.paths] == [_COUNT] * 3


class TouchyPath(os.PathLike):  # type: ignore[type-arg]
    def __fspath__(self) -> str:
        pytest.fail("code of the job ran: __fspath__")

    @property
    def __class__(self) -> Any:
        pytest.fail("code of the job ran: __class__")


class TouchyList(list):  # type: ignore[type-arg]
    def __getitem__(self, at: Any) -> Any:
        pytest.fail("code of the job ran: __getitem__")

    def __len__(self) -> int:
        pytest.fail("code of the job ran: __len__")


def test_no_code_of_the_job_runs(watched: Watched) -> None:
    paths, touchy = watched.paths, (TouchyPath(), TouchyList(watched.paths))
    for entries in ([TouchyPath() for _ in paths], [TouchyList(paths)] * 9):

        def drawn(row: Any, *more: Any) -> Any:
            yield from row
            del more

        watched.draw(drawn(entries, *touchy), Owner(paths), 9)
        watched.draw(drawn(TouchyList(entries)), Owner(paths), 3)
    assert watched.told.paths == []
