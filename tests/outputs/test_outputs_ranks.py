"""Outputs among ranks: what one writes the others see, whole; of a clash one comes out ahead."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_tools import RankRun, Ranks, make_ranks
from mpiexec import needs_ranks
from output_steps import Steps, content, digest
from soak import sampled

from fanstore.outputs.model.entries import keeper_of

pytestmark = needs_ranks

MIB = 1 << 20
SIZES = pytest.mark.parametrize("size", sampled([2, 3, 4], [3]))


class Job:
    """A run of `size` ranks whose steps are numbered by themselves."""

    def __init__(self, run: RankRun, steps: Steps, size: int, ranks: Ranks) -> None:
        self.ranks = ranks
        self.run = run
        self.size = size
        self._steps = steps
        self._next = iter(range(40))

    def all(self, text: str | dict[int, str]) -> list[object]:
        """What all ranks say to it, at the same time."""
        step = f"s{next(self._next)}"
        self._steps.tell(step, text)
        return [self._steps.answer(step, rank) for rank in range(self.size)]

    def one(self, rank: int, text: str) -> object:
        """What one rank says to it."""
        return self.all({rank: text})[rank]

    def end(self) -> None:
        for step in self._next:
            self._steps.tell(f"s{step}", "None")
        assert self.run.end() == [0] * self.size, [self.run.err(r) for r in range(self.size)]
        self.run.check_nothing_left()


@contextlib.contextmanager
def running(tmp_path: Path, size: int) -> Iterator[Job]:
    ranks = make_ranks(tmp_path, {"input": b"an input", "in/put": b"another"})
    steps = Steps(tmp_path / "steps", *(f"s{n}" for n in range(40)))
    options = ("--output-dir", str(tmp_path / "output"))
    with ranks.running(size, steps.command, *options) as run:
        job = Job(run, steps, size, ranks)
        yield job
        job.end()


def error(number: int) -> list[object]:
    """What a step says that failed."""
    return ["errno", number]


def directory_of(home: int, size: int, other_than: str = "") -> str:
    """A directory whose names are kept by a rank."""
    names = (f"d{n}" for n in range(1000))
    return next(d for d in names if keeper_of(0, d.encode(), size) == home and d != other_than)


@SIZES
def test_what_is_closed_is_seen_whole_by_all(tmp_path: Path, size: int) -> None:
    with running(tmp_path, size) as job:
        for writer in range(size):
            names = [f"of{writer}-{n}" for n in (0, 1, 5000, 3 * MIB + 7)]
            for name in names:
                length = int(name.split("-")[1])
                assert job.one(writer, f"write({name!r}, {length})") is None
            expected = [digest(name, int(name.split("-")[1])) for name in names]
            assert job.all(f"[read(n) for n in {names}]") == [expected] * size
        there = job.all("[names(), len(names('in'))]")
        assert there == [there[0]] * size
        assert f"of{size - 1}-1" in there[0][0] and "input" in there[0][0]  # type: ignore[index]


def test_a_large_file_is_the_same_everywhere(tmp_path: Path) -> None:
    with running(tmp_path, 4) as job:
        assert job.one(1, f"write('large', {20 * MIB + 5})") is None
        assert job.all("read('large')") == [digest("large", 20 * MIB + 5)] * 4
        stat = "(lambda s: [s.st_size, s.st_mode, s.st_ino, s.st_mtime_ns])(os.stat(root+'/large'))"
        seen = job.all(stat)
        assert seen == [seen[0]] * 4
        assert (tmp_path / "output").exists()
    assert (tmp_path / "output" / "large").read_bytes() == content("large", 20 * MIB + 5)


@SIZES
def test_of_those_who_create_exclusively_one_succeeds(tmp_path: Path, size: int) -> None:
    with running(tmp_path, size) as job:
        for n in range(4):
            text = f"os.close(os.open(root + '/lock{n}', os.O_CREAT | os.O_EXCL | os.O_WRONLY))"
            said = job.all(text)
            assert said.count(None) == 1 and said.count(error(errno.EEXIST)) == size - 1, said
        said = job.all("os.mkdir(root + '/dir')")
        assert said.count(None) == 1 and said.count(error(errno.EEXIST)) == size - 1, said


@SIZES
def test_what_is_written_is_hidden_until_it_is_closed(tmp_path: Path, size: int) -> None:
    with running(tmp_path, size) as job:
        assert job.one(0, "begin('draft', 5000)") is None
        assert job.one(1, "read('draft')") == error(errno.ENOENT)
        assert job.one(1, "write('draft', 10)") == error(errno.ETXTBSY)
        assert "draft" not in job.one(1, "names()")  # type: ignore[operator]
        assert job.one(0, "read('draft')") == digest("draft", 5000)
        assert job.one(0, "finish('draft')") is None
        assert job.all("read('draft')") == [digest("draft", 5000)] * size
        # So is a new version, which another rank writes from the beginning.
        assert job.one(1, "begin('draft', 6000)") is None
        assert job.one(0, "read('draft')") == error(errno.ENOENT)
        assert job.one(1, "finish('draft')") is None
        assert job.all("read('draft')") == [digest("draft", 6000)] * size


@SIZES
def test_renames_across_homes_and_owners(tmp_path: Path, size: int) -> None:
    first, second = directory_of(0, size), directory_of(1, size)
    with running(tmp_path, size) as job:
        assert job.one(0, f"write('{first}/a', 3000)") is None
        assert job.one(1, f"write('{second}/b', 4000)") is None
        rename = f"os.rename(root + '/{first}/a', root + '/{second}/b')"
        assert job.one(size - 1, rename) is None
        seen = f"[names('{first}'), names('{second}'), read('{second}/b')]"
        assert job.all(seen) == [[[], ["b"], digest(f"{first}/a", 3000)]] * size
        # The directory itself, with what is in it.
        other = directory_of(0, size, first)
        assert job.one(1, f"os.rename(root + '/{second}', root + '/{other}')") is None
        seen = f"[read('{other}/b'), os.path.exists(root + '/{second}')]"
        assert job.all(seen) == [[digest(f"{first}/a", 3000), False]] * size
        assert job.one(0, f"remove('{other}/b')") is None
        assert job.all(f"names('{other}')") == [[]] * size


@SIZES
def test_ranks_that_rename_one_file_to_many_names_leave_one(tmp_path: Path, size: int) -> None:
    with running(tmp_path, size) as job:
        for n in range(3):
            assert job.one(0, f"write('from{n}', 100)") is None
            said = job.all(f"os.rename(root + '/from{n}', root + '/in/to' + rank)")
            assert said.count(None) == 1 and said.count(error(errno.ENOENT)) == size - 1, said
            winner = said.index(None)
            assert job.all(f"read('in/to{winner}')") == [digest(f"from{n}", 100)] * size


def test_what_many_ranks_append_in_turn_is_all_there(tmp_path: Path) -> None:
    with running(tmp_path, 4) as job:
        for n in range(8):
            text = f"(lambda f: [f.write('{n};'), f.close()] and None)(open(root + '/log', 'a'))"
            assert job.one(n % 4, text) is None
        expected = "".join(f"{n};" for n in range(8))
        assert job.all("open(root + '/log').read()") == [expected] * 4
    assert (tmp_path / "output" / "log").read_text() == expected


def test_many_small_files_of_all_ranks(tmp_path: Path) -> None:
    with running(tmp_path, 3) as job:
        text = "[write(f'm{n % 5}/r{rank}-{n}', n * 37) for n in range(40)] and None"
        assert job.all(text) == [None] * 3
        text = "[read(f'm{n % 5}/r{r}-{n}') for r in range(3) for n in range(40)]"
        expected = [digest(f"m{n % 5}/r{r}-{n}", n * 37) for r in range(3) for n in range(40)]
        assert job.all(text) == [expected] * 3
    placed = [p for p in (tmp_path / "output").rglob("*") if p.is_file()]
    assert len(placed) == 120
    for path in placed:
        name = os.fspath(path.relative_to(tmp_path / "output"))
        assert path.read_bytes() == content(name, int(name.split("-")[1]) * 37)


@pytest.mark.soak
def test_attributes_changed_through_a_copys_descriptor(tmp_path: Path) -> None:
    with running(tmp_path, 2) as job:
        assert job.one(0, "write('d/f', 10)") is None
        change = "(lambda fd: [os.fchmod(fd, 0o640), os.utime(fd, ns=(5, 7))] and os.close(fd))"
        assert job.one(1, change + "(os.open(root + '/d/f', os.O_RDONLY))") is None
        look = "(lambda s: [s.st_mode & 0o777, s.st_atime_ns, s.st_mtime_ns])"
        look += "(os.stat(root + '/d/f'))"
        assert job.all(look) == [[0o640, 5, 7]] * 2
        assert job.all("read('d/f')") == [digest("d/f", 10)] * 2
    found = os.stat(tmp_path / "output" / "d" / "f")
    assert (found.st_mode & 0o777, found.st_mtime_ns) == (0o640, 7)


def test_written_by_the_path_of_a_copys_descriptor(tmp_path: Path) -> None:
    """Another node's file is not written in its copy."""
    with running(tmp_path, 2) as job:
        assert job.one(0, "write('f', 4000)") is None
        assert job.all("opened.update(f=os.open(root + '/f', os.O_RDONLY))") == [None] * 2
        again = "os.open(f'/proc/self/fd/{opened[\"f\"]}', os.O_RDWR)"
        assert job.one(1, again) == error(errno.EROFS)
        assert job.all("read('f')") == [digest("f", 4000)] * 2
