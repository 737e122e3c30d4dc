"""Iterators that go through lists of paths, or through numbers of files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fanstore.in_job import files, rows
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


class Watched:
    """Streams over `paths`, which takes part in the reads of iterators."""

    def __init__(self, paths: list[str]) -> None:
        self.paths, self.told, self.opened = paths, Told(), 0
        self.streams = Streams(rows, files, number_in, "stream", self.told, lambda: self.opened)

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
